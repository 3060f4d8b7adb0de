// Interaction: tabs, sorting, filters, selection; all of it is in the URL's hash.
"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const one = (selector, place = document) => place.querySelector(selector);
  const all = (selector, place = document) => [...place.querySelectorAll(selector)];
  const SELECTED_AT_FIRST = 3;

  const tabs = all('[role="tab"]');
  const boards = all(".board");
  // what is shown: a table, its selected rows, a metric over the rounds, one run; the filters and
  // the order of rows are where their controls are
  const state = { table: null, rows: [], metric: null, against: "rounds", run: null };
  const AXES = ["scatter-x", "scatter-y", "traffic-y", "years-y"]; // of the table's charts
  let axes = {};

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
    axes = Object.fromEntries(AXES.map((id) => [id, wanted.get(id)]));
    const board = boardOf(known);
    for (const field of one(".filters", board).elements) {
      const value = wanted.get(field.name) ?? "";
      if (field.type === "checkbox") field.checked = value === "1";
      else if (field.type === "search" || [...(field.options ?? [])].some((one) => one.value === value)) field.value = value;
      else if (field.options) field.value = "";
    }
    filter(board);
    const [place, direction] = (wanted.get("sort") ?? "0.ascending").split(".");
    const head = all("thead th", board)[place];
    if (head && (wanted.has("sort") || DATA.tables[known].ranked)) order(board, head, direction === "descending" ? direction : "ascending");
  }

  const boardOf = (id) => one(`#board-${CSS.escape(id)}`);

  function writeHash() {
    const shown = new URLSearchParams({ table: state.table, rows: state.rows.join(",") });
    if (state.metric) shown.set("metric", state.metric);
    if (state.against !== "rounds") shown.set("against", state.against);
    if (state.run) shown.set("run", state.run);
    for (const [id, value] of Object.entries(axes)) if (value) shown.set(id, value);
    const board = boardOf(state.table);
    for (const field of one(".filters", board).elements) {
      const value = field.type === "checkbox" ? (field.checked ? "1" : "") : field.value;
      if (field.name && value) shown.set(field.name, value);
    }
    const head = one("thead th[aria-sort]", board);
    const at = head && `${head.cellIndex}.${head.getAttribute("aria-sort")}`;
    if (at && at !== "0.ascending") shown.set("sort", at);
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
    const group = boardOf(id).closest(".group");
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
    axes = {};
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
    const before = head.getAttribute("aria-sort");
    order(board, head, before ? (before === "ascending" ? "descending" : "ascending") : head.dataset.first);
    writeHash();
  }

  function order(board, head, direction) {
    const column = head.cellIndex;
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

  // The rows and columns that are shown, values in full precision; text that a spreadsheet would
  // compute is marked as text.
  function csv(board) {
    const kept = all("thead th", board).filter((head) => head.offsetParent);
    const cell = (text) => {
      const safe = /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text)) ? `'${text}` : text;
      return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    };
    const std = (place) => one(".std", place)?.textContent.replace(/[^\d.]/g, "") ?? "";
    const metric = (head) => head.classList.contains("metric");
    const head = kept.flatMap((th) => (metric(th) ? [th.innerText, `${th.innerText} std`] : [th.innerText]).map((text) => text.trim()));
    const rows = all("tbody tr", board).filter((row) => row.offsetParent).map((row) =>
      [...kept.flatMap((th) => {
        const place = row.cells[th.cellIndex];
        return metric(th) ? [place.dataset.value, std(place)] : [place.dataset.value];
      }), one(".source", row).textContent.trim()]);
    return [[...head, "Source"], ...rows].map((line) => line.map(cell).join(",")).join("\n") + "\n";
  }

  function download(board) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv(board)], { type: "text/csv" }));
    link.download = `${board.dataset.table}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  for (const board of boards) {
    one(".csv", board).addEventListener("click", () => download(board));
    for (const head of all("thead th", board)) one("button", head).addEventListener("click", () => sort(board, head));
    const form = one(".filters", board);
    form.addEventListener("input", () => {
      filter(board);
      writeHash();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    board.addEventListener("click", async ({ target }) => {
      if (!target.classList.contains("copy")) return;
      await navigator.clipboard.writeText(target.value);
      target.textContent = "Copied";
    });
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
    const named = (found) => found.map((c) => [c.key, c.name]);
    const both = [...columns, ...table.further];
    const pairs = both.some((a) => both.some((b) => a !== b && has(table, a.key, b.key)));
    const known = columns.filter((c) => table.rows.some((row) => row.values[c.key] && row.traffic !== null));
    const dated = table.columns.filter((c) => Charts.yearsOf(table.rows, c).length > 1);
    // both are there before the first is drawn, which takes its width from the place that it has
    for (const [id, wanted] of [["#scatter", pairs], ["#traffic", known.length > 0], ["#years", dated.length > 0]]) {
      if (wanted) one(id).hidden = false;
      else Charts.clear(one(id));
    }
    if (pairs) {
      firstPair(both).forEach((key, i) => options(one(`#${AXES[i]}`), named(both), has(table, axes[AXES[i]]) ? axes[AXES[i]] : key));
      drawScatter();
    }
    if (known.length) {
      options(one("#traffic-y"), named(known), axes["traffic-y"]);
      drawTraffic();
    }
    if (dated.length) {
      options(one("#years-y"), named(dated), axes["years-y"]);
      drawYears();
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

  function drawYears() {
    Charts.years(one("#years"), DATA.tables[state.table].rows, column(document.getElementById("years-y").value));
  }

  function showCurves(rows) {
    const names = [...new Set(rows.flatMap((row) => row.data.flatMap((run) => Object.keys(run.curves.metrics))))];
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
    const board = boardOf(state.table);
    for (const box of all('input[name="row"]', board)) box.checked = state.rows.includes(box.value);
    one("#charts").hidden = one("#runs").hidden = false;
    showTableCharts();
    one("#charts").hidden = all("#charts figure").every((figure) => figure.hidden);
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
  [drawScatter, drawScatter, drawTraffic, drawYears].forEach((draw, i) => {
    one(`#${AXES[i]}`).addEventListener("change", (event) => {
      axes[AXES[i]] = event.target.value;
      draw();
      writeHash();
    });
  });
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
