// Tabs, the choice of a table, sorting, filters; charts are drawn when they are seen.
"use strict";
document.documentElement.classList.add("js");
document.addEventListener("DOMContentLoaded", () => {
  const all = (selector, place = document) => [...place.querySelectorAll(selector)];
  const one = (selector, place = document) => place.querySelector(selector);
  const tabs = all('[role="tab"]');

  function showTab(tab) {
    for (const other of tabs) {
      other.setAttribute("aria-selected", other === tab);
      other.tabIndex = other === tab ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = other !== tab;
    }
    drawCharts();
  }

  // The tab of your runs shows all of its tables, the others the chosen one.
  function choose(board) {
    const group = board.closest(".group");
    const choice = one(".choose-table", group);
    if (!choice) return;
    choice.value = board.id;
    for (const other of all(".board", group)) other.hidden = other !== board;
  }

  function follow() {
    const board = document.getElementById(location.hash.slice(1));
    if (!board || !board.matches(".board")) return;
    choose(board);
    showTab(tabs.find((tab) => tab.getAttribute("aria-controls") === board.closest(".group").id));
    board.scrollIntoView();
  }

  function drawCharts() {
    for (const plot of all(".plot:empty")) {
      if (plot.offsetParent === null) continue;
      const { data, layout } = JSON.parse(plot.nextElementSibling.textContent);
      Plotly.newPlot(plot, data, layout, { responsive: true, displayModeBar: false });
    }
  }

  function sort(head) {
    const heads = all("th", head.parentElement);
    const place = heads.indexOf(head);
    const sorted = head.getAttribute("aria-sort");
    const ascending = sorted ? sorted === "descending" : head.dataset.first === "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const body = head.closest("table").tBodies[0];
    const value = (row) => row.cells[place].dataset.value;
    const compare = (a, b) => {
      if (value(a) === "" || value(b) === "") return (value(a) === "") - (value(b) === "");
      const order = head.classList.contains("number") ? value(a) - value(b) : value(a).localeCompare(value(b));
      return ascending ? order : -order;
    };
    body.append(...[...body.rows].sort(compare));
  }

  function filter(form) {
    const words = form.elements.text.value.toLowerCase().split(/\s+/);
    const kind = form.elements.kind ? form.elements.kind.value : "";
    const rows = all("tbody tr", form.closest(".part"));
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word)) || (kind !== "" && row.dataset.kind !== kind);
    }
    const shown = rows.filter((row) => !row.hidden).length;
    one(".shown", form).textContent = `${shown} of ${rows.length} rows`;
  }

  for (const tab of tabs) {
    tab.addEventListener("click", () => showTab(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      let place = (tabs.indexOf(tab) + step + tabs.length) % tabs.length;
      if (event.key === "Home") place = 0;
      if (event.key === "End") place = tabs.length - 1;
      if (Number.isNaN(place)) return;
      event.preventDefault();
      showTab(tabs[place]);
      tabs[place].focus();
    });
  }
  for (const choice of all(".choose-table")) {
    choice.addEventListener("change", () => {
      choose(document.getElementById(choice.value));
      drawCharts();
    });
    choose(document.getElementById(choice.value));
  }
  for (const button of all("thead button")) button.addEventListener("click", () => sort(button.parentElement));
  for (const form of all(".filters")) {
    form.addEventListener("input", () => filter(form));
    form.addEventListener("submit", (event) => event.preventDefault());
  }
  addEventListener("hashchange", follow);
  if (tabs.length) showTab(tabs[0]);
  follow();
});
