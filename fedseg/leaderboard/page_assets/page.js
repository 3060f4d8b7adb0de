// Interaction: tabs, sorting, filters, selection; the state of the page is in the URL's hash.
"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const one = (selector, place = document) => place.querySelector(selector);
  const all = (selector, place = document) => [...place.querySelectorAll(selector)];
  const SELECTED_AT_FIRST = 3;

  const tabs = all('[role="tab"]');
  const boards = all(".board");
  // what is shown: a table, its selected rows, a metric over the rounds, one run
  const state = { table: null, rows: [], metric: null, against: "rounds", run: null };

  // ------------------------------------------------------------ state in the URL

  function readHash() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const id = wanted.get("table");
    const known = Object.hasOwn(DATA.tables, id) ? id : boards[0] && boards[0].dataset.table;
    if (!known) return;
    const rows = wanted.get("rows");
    Object.assign(state, {
      table: known,
      rows: rows === null ? firstRows(known) : rows.split(",").filter((key) => rowOf(known, key)),
      metric: wanted.get("metric"),
      against: wanted.get("against") === "bytes" ? "bytes" : "rounds",
      run: wanted.get("run"),
    });
  }

  function writeHash() {
    const shown = new URLSearchParams({ table: state.table, rows: state.rows.join(",") });
    if (state.metric) shown.set("metric", state.metric);
    if (state.against !== "rounds") shown.set("against", state.against);
    if (state.run) shown.set("run", state.run);
    history.replaceState(null, "", `#${shown}`);
  }

  const rowOf = (table, key) => DATA.tables[table].rows.find((row) => row.key === key && row.kind === "run");
  const firstRows = (table) => DATA.tables[table].rows.filter((row) => row.kind === "run").slice(0, SELECTED_AT_FIRST).map((row) => row.key);

  // ------------------------------------------------------------ tabs

  // Not scrollIntoView, which would also move where the keyboard's way through the page begins.
  function reveal(tab) {
    const list = tab.parentElement;
    const end = tab.offsetLeft + tab.offsetWidth;
    list.scrollLeft = Math.min(Math.max(list.scrollLeft, end - list.clientWidth), tab.offsetLeft);
  }

  function showTable(id) {
    for (const board of boards) board.hidden = board.dataset.table !== id;
    const group = one(`#board-${CSS.escape(id)}`).closest(".group");
    for (const other of all(".group")) other.hidden = other !== group;
    for (const tab of tabs) {
      const chosen = tab.getAttribute("aria-controls") === group.id;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) reveal(tab);
    }
    const chooser = one(".choose-table", group);
    if (chooser) chooser.value = id;
  }

  function openTable(id) {
    Object.assign(state, { table: id, rows: firstRows(id), metric: null, run: null });
    update();
  }

  tabs.forEach((tab, place) => {
    const open = (target) => {
      const group = document.getElementById(target.getAttribute("aria-controls"));
      const chooser = one(".choose-table", group);
      openTable(chooser ? chooser.value : one(".board", group).dataset.table);
      target.focus();
    };
    tab.addEventListener("click", () => open(tab));
    tab.addEventListener("keydown", (event) => {
      const last = tabs.length - 1;
      const next = { ArrowRight: place === last ? 0 : place + 1, ArrowLeft: place ? place - 1 : last, Home: 0, End: last }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      open(tabs[next]);
    });
  });
  for (const chooser of all(".choose-table")) chooser.addEventListener("change", () => openTable(chooser.value));

  // ------------------------------------------------------------ sorting and filters

  function sort(board, head) {
    const column = head.cellIndex;
    const before = head.getAttribute("aria-sort");
    const direction = before ? (before === "ascending" ? "descending" : "ascending") : head.dataset.first;
    const sign = direction === "ascending" ? 1 : -1;
    const body = one("tbody", board);
    const value = (row) => row.cells[column].dataset.value;
    const numeric = head.classList.contains("number");
    const rows = [...body.rows];
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === "" || y === "") return (x === "") - (y === ""); // what is missing stays last
      return sign * (numeric ? x - y : x.localeCompare(y, "en"));
    });
    body.append(...rows);
    for (const other of all("thead th", board)) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction);
  }

  function filter(board) {
    const form = one(".filters", board);
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const choices = all("select", form).filter((select) => select.value);
    const further = form.elements.further && form.elements.further.checked; // what is not ranked
    board.classList.toggle("all", Boolean(further));
    let count = 0;
    const rows = all(further ? "tbody tr" : "tbody tr:not(.further)", board);
    for (const row of rows) {
      const text = one("th", row).textContent.toLowerCase();
      row.hidden = !(words.every((word) => text.includes(word)) && choices.every((select) => row.dataset[select.name] === select.value));
      count += !row.hidden;
    }
    one(".shown", board).textContent = `${count} of ${rows.length} rows`;
    one(".none", board).hidden = count > 0;
  }

  for (const board of boards) {
    for (const head of all("thead th", board)) one("button", head).addEventListener("click", () => sort(board, head));
    const form = one(".filters", board);
    form.addEventListener("input", () => filter(board));
    form.addEventListener("submit", (event) => event.preventDefault());
    board.addEventListener("change", (event) => {
      if (event.target.name !== "row") return;
      state.rows = all('input[name="row"]:checked', board).map((box) => box.value);
      update();
    });
  }

  // ------------------------------------------------------------ charts

  function options(select, entries, wanted) {
    select.replaceChildren(...entries.map(([value, text]) => new Option(text, value)));
    select.value = entries.some(([value]) => value === wanted) ? wanted : entries.length ? entries[0][0] : "";
    return select.value;
  }

  const percent = (table) => table.columns.filter((column) => column.unit === "%");
  const has = (table, ...keys) => table.rows.some((row) => keys.every((key) => row.values[key]));

  // The pair that a table opens with: seen across, unseen up, where it has them.
  function firstPair(columns) {
    const is = (word) => columns.find((column) => column.key.startsWith(word));
    const [x, y] = [is("seen"), is("unseen")];
    return x && y ? [x.key, y.key] : [columns[1].key, columns[0].key];
  }

  function showTableCharts() {
    const table = DATA.tables[state.table];
    const columns = percent(table).filter((column) => has(table, column.key));
    const axes = [...columns, ...table.further];
    const [across, up, height] = ["scatter-x", "scatter-y", "traffic-y"].map((id) => document.getElementById(id));
    const pairs = axes.some((a) => axes.some((b) => a !== b && has(table, a.key, b.key)));
    const known = columns.filter((c) => table.rows.some((row) => row.values[c.key] && row.traffic !== null));
    // both are there before the first is drawn, which takes its width from the place that it has
    for (const [id, wanted] of [["#scatter", pairs], ["#traffic", known.length > 0]]) {
      if (wanted) one(id).hidden = false;
      else Charts.clear(one(id));
    }
    if (pairs) {
      const [x, y] = firstPair(axes);
      for (const [place, key] of [[across, x], [up, y]]) options(place, axes.map((c) => [c.key, c.name]), key);
      drawScatter();
    }
    if (known.length) {
      options(height, known.map((c) => [c.key, c.name]), known[0].key);
      drawTraffic();
    }
  }

  const column = (key) => [...DATA.tables[state.table].columns, ...DATA.tables[state.table].further].find((c) => c.key === key);

  function drawScatter() {
    const [across, up] = ["scatter-x", "scatter-y"].map((id) => column(document.getElementById(id).value));
    one("#scatter h3").textContent = `${up.name[0].toUpperCase()}${up.name.slice(1)} against ${across.name}`;
    Charts.scatter(one("#scatter"), DATA.tables[state.table].rows, across, up);
  }

  function drawTraffic() {
    const table = DATA.tables[state.table];
    const up = column(document.getElementById("traffic-y").value);
    one("#traffic h3").textContent = `${up.name[0].toUpperCase()}${up.name.slice(1)} against traffic`;
    Charts.traffic(one("#traffic"), table.rows, up, table.trafficUnit);
  }

  function showCurves(rows) {
    const names = [...new Set(rows.flatMap((row) => row.data.flatMap((run) => (run.curves ? Object.keys(run.curves.metrics) : []))))];
    const figure = one("#curves");
    if (!names.length) return Charts.clear(figure);
    const main = DATA.tables[state.table].columns.map((c) => c.metric).find((name) => names.includes(name));
    const chosen = options(one("#curves-metric"), names.map((name) => [name, name]), names.includes(state.metric) ? state.metric : main);
    one("#curves-x").value = state.against;
    const target = DATA.tables[state.table].target;
    Charts.curves(figure, rows, chosen, state.against, chosen === main ? target : null);
  }

  function showRun(rows) {
    const runs = rows.flatMap((row) => row.runs.map((id) => [id, `${row.label}, seed ${DATA.runs[id].seed}`]));
    const place = one("#one");
    place.hidden = !runs.length;
    if (!runs.length) return;
    const run = DATA.runs[options(one("#one-run"), runs, state.run)];
    const label = one("#one-run").selectedOptions[0].text;
    one("#one-facts").replaceChildren(...run.facts.map(([name, value]) => {
      const pair = document.createElement("div");
      const [term, fact] = ["dt", "dd"].map((tag) => document.createElement(tag));
      [term.textContent, fact.textContent] = [name, value];
      pair.append(term, fact);
      return pair;
    }));
    const domains = Object.keys(run.classes);
    one("#classes").hidden = !domains.length;
    if (domains.length) {
      const names = [...new Set(domains.flatMap((domain) => Object.keys(run.classes[domain])))];
      Charts.heat(one("#classes .scroll"), ["class", ...domains], [...names.map((name) => [name, ...domains.map((domain) => run.classes[domain][name])]), ["mIoU", ...domains.map((domain) => run.miou[domain])]], true);
    }
    const corruptions = Object.entries(run.corruptions);
    one("#corruptions").hidden = !corruptions.length;
    if (corruptions.length) {
      const severities = Math.max(...corruptions.map(([, values]) => values.length));
      Charts.heat(one("#corruptions .scroll"), ["corruption", ...Array.from({ length: severities }, (_, i) => `severity ${i + 1}`)], corruptions.map(([name, values]) => [name.replaceAll("_", " "), ...values]));
    }
    if (run.clients) Charts.clients(one("#clients"), run.clients);
    else Charts.clear(one("#clients"));
    showPictures(run, label);
  }

  function showPictures(run, label) {
    one("#pictures").hidden = !run.pictures.length;
    one("#pictures .gallery").replaceChildren(...run.pictures.map((picture) => {
      const figure = document.createElement("figure");
      const image = document.createElement("img");
      Object.assign(image, {
        src: picture.src,
        width: picture.width,
        height: picture.height,
        loading: "lazy",
        alt: `Image ${picture.image} of ${picture.domain}, the ground truth, and the prediction of ${label}; a legend explains the colors.`,
      });
      const link = document.createElement("a");
      link.href = picture.src;
      link.append(image);
      const caption = document.createElement("figcaption");
      caption.textContent = `${picture.domain}, ${picture.image}`;
      figure.append(link, caption);
      return figure;
    }));
  }

  function showSelection() {
    const rows = state.rows.map((key) => rowOf(state.table, key)).filter(Boolean).map((row) => ({ ...row, data: row.runs.map((id) => DATA.runs[id]) }));
    one("#no-selection").hidden = rows.length > 0;
    if (rows.length) showCurves(rows);
    else Charts.clear(one("#curves"));
    if (rows.some((row) => row.data.some((run) => run.spectrum.length))) Charts.spectra(one("#spectra"), rows);
    else Charts.clear(one("#spectra"));
    showRun(rows);
  }

  function update() {
    showTable(state.table);
    const board = one(`#board-${CSS.escape(state.table)}`);
    for (const box of all('input[name="row"]', board)) box.checked = state.rows.includes(box.value);
    one("#charts").hidden = one("#runs").hidden = false;
    showTableCharts();
    one("#charts").hidden = one("#scatter").hidden && one("#traffic").hidden;
    one("#runs").hidden = !DATA.tables[state.table].rows.some((row) => row.kind === "run");
    if (!one("#runs").hidden) showSelection();
    writeHash();
  }

  // ------------------------------------------------------------ theme

  const theme = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : prefersDark.matches);
  const showTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
  const redraw = () => {
    showTheme();
    if (state.table) update();
  };
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("fedseg-theme", document.documentElement.dataset.theme);
    } catch {
      // then it holds until the page is left
    }
    redraw();
  });
  prefersDark.addEventListener("change", redraw);
  showTheme();

  if (!boards.length) return;
  for (const id of ["scatter-x", "scatter-y"]) document.getElementById(id).addEventListener("change", drawScatter);
  document.getElementById("traffic-y").addEventListener("change", drawTraffic);
  const follow = (id, field) => document.getElementById(id).addEventListener("change", (event) => {
    state[field] = event.target.value;
    showSelection();
    writeHash();
  });
  follow("curves-metric", "metric");
  follow("curves-x", "against");
  follow("one-run", "run");
  one(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the hash is the page's state
    document.getElementById("tables").focus();
  });
  addEventListener("hashchange", () => {
    readHash();
    update();
  });
  readHash();
  update();
})();
