// Before the first paint: the theme that was chosen, and that there is JavaScript.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const chosen = localStorage.getItem("fedseg-theme");
    if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  } catch {
    // a browser that keeps nothing for pages from files
  }
})();
