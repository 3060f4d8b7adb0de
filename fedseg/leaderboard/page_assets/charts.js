// Drawing: Plotly for lines and points, HTML tables for maps, which are their own text alternative.
"use strict";
window.Charts = (() => {
  // Okabe and Ito's colors, darker on a light background and lighter on a dark one; markers and
  // dashes go with them, so that nothing depends on color alone.
  const MARKERS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "star"];
  const PAPERS = ["circle-open", "square-open", "diamond-open", "triangle-up-open", "cross-open", "star-open"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "solid", "dash"];
  const SCALE = ["#ffffd9", "#edf8b1", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#253494", "#081d58"];
  const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false, showTips: false };

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const color = (mark) => css(`--mark-${mark}`);
  // Plotly renders some HTML in its texts; names must not be read as HTML
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (value, digits = 2) => (value === null || value === undefined ? "-" : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));

  function transparent(hex, alpha) {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return `rgba(${r}, ${g}, ${b}, ${alpha})`;
  }

  function groupBy(rows, nameOf) {
    const groups = new Map();
    for (const row of rows) groups.set(nameOf(row), [...(groups.get(nameOf(row)) ?? []), row]);
    return groups;
  }

  // The unit in which the largest of some byte counts is read best.
  function byteUnit(largest) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    const power = Math.min(4, largest >= 1 ? Math.floor(Math.log2(largest) / 10) : 0);
    return { factor: 1024 ** power, name: units[power] };
  }

  function bytes(count) {
    const { factor, name } = byteUnit(count);
    return `${(count / factor).toFixed(factor > 1 ? 1 : 0)} ${name}`;
  }

  function layout(x, y, more = {}) {
    const axis = (title, own = {}) => ({
      title: { text: plain(title), standoff: 10 },
      gridcolor: css("--line"),
      linecolor: css("--line"),
      zeroline: false,
      ticks: "outside",
      tickcolor: css("--line"),
      ticklen: 4,
      automargin: true,
      fixedrange: true,
      ...own,
    });
    const { xaxis, yaxis, ...rest } = more;
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: css("--sans"), size: 13, color: css("--ink") },
      margin: { l: 48, r: 12, t: 8, b: 40 },
      hovermode: "closest",
      hoverlabel: { bgcolor: css("--surface"), bordercolor: css("--line"), font: { color: css("--ink"), family: css("--sans"), size: 13 }, align: "left" },
      dragmode: false,
      legend: { orientation: "h", x: 0, xanchor: "left", y: -0.22, yanchor: "top", itemclick: false, itemdoubleclick: false },
      xaxis: axis(x, xaxis),
      yaxis: axis(y, yaxis),
      ...rest,
    };
  }

  function draw(figure, traces, { height, ...shape }, label) {
    const place = figure.querySelector(".plot");
    figure.hidden = false;
    place.style.height = `${height}px`;
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", label);
    // Plotly keeps the width of the first drawing, which may have had another place
    const drawn = place.querySelector(".main-svg");
    if (drawn && Math.abs(drawn.clientWidth - place.clientWidth) > 1) Plotly.purge(place);
    Plotly.react(place, traces, shape, CONFIG);
  }

  function clear(figure) {
    figure.hidden = true;
    const place = figure.querySelector(".plot");
    if (place && place.data) Plotly.purge(place);
  }

  // ------------------------------------------------------------ curves

  // Mean, minimum and maximum over the seeds of a row, for rounds that every seed has evaluated.
  function overSeeds(runs, metric) {
    const points = new Map();
    const found = runs.filter((run) => run.curves.metrics[metric]);
    for (const run of found) {
      run.curves.rounds.forEach((round, i) => {
        const value = run.curves.metrics[metric][i];
        if (value === null || value === undefined) return;
        if (!points.has(round)) points.set(round, { values: [], bytes: [] });
        points.get(round).values.push(value);
        points.get(round).bytes.push(run.curves.bytes[i]);
      });
    }
    const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;
    return [...points]
      .filter(([, one]) => one.values.length === found.length)
      .sort(([a], [b]) => a - b)
      .map(([round, one]) => ({ rounds: round, bytes: mean(one.bytes), mean: mean(one.values), min: Math.min(...one.values), max: Math.max(...one.values), seeds: found.length }));
  }

  function curves(figure, rows, name, against, target) {
    const series = rows.map((row) => ({ row, points: overSeeds(row.data, name) })).filter((one) => one.points.length);
    const unit = against === "bytes" ? byteUnit(Math.max(0, ...series.flatMap((one) => one.points.map((p) => p.bytes)))) : { factor: 1, name: "" };
    const percent = name.includes("/"); // <domain>/<metric>
    const traces = [];
    for (const { row, points } of series) {
      const shade = color(row.mark);
      const x = points.map((p) => p[against] / unit.factor);
      if (points[0].seeds > 1) {
        traces.push({ x: [...x, ...[...x].reverse()], y: [...points.map((p) => p.max), ...points.map((p) => p.min).reverse()], fill: "toself", fillcolor: transparent(shade, 0.16), line: { width: 0 }, mode: "lines", hoverinfo: "skip", showlegend: false, type: "scatter" });
      }
      traces.push({
        x,
        y: points.map((p) => p.mean),
        name: plain(row.label),
        mode: points.length > 60 ? "lines" : "lines+markers",
        line: { color: shade, width: 2, dash: DASHES[row.mark] },
        marker: { symbol: MARKERS[row.mark], size: 7, color: shade },
        text: points.map((p) => `${plain(row.label)}<br>round ${p.rounds.toLocaleString("en")}, ${bytes(p.bytes)}<br>${short(p.mean)}${p.seeds > 1 ? ` (${short(p.min)} to ${short(p.max)}, ${p.seeds} seeds)` : ""}`),
        hoverinfo: "text",
        type: "scatter",
      });
    }
    const shapes = [];
    const annotations = [];
    if (target !== null && percent) {
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: target, y1: target, line: { color: css("--muted"), width: 1.5, dash: "dash" } });
      annotations.push({ xref: "paper", x: 0, y: target, text: `target ${target} %`, showarrow: false, xanchor: "left", yanchor: "bottom", font: { color: css("--muted"), size: 12 } });
    }
    const title = against === "bytes" ? `traffic (${unit.name})` : "round";
    const last = series.map((one) => `${one.row.label} ends at ${short(one.points[one.points.length - 1].mean)}`);
    draw(figure, traces, layout(title, percent ? `${name} (%)` : name, { shapes, annotations, height: 400, yaxis: { rangemode: "tozero" }, xaxis: { rangemode: "tozero" } }), `${name} over ${against === "bytes" ? "traffic" : "rounds"}: ${last.join("; ") || "no values"}. The values are in the table below.`);
    curveTable(figure.querySelector("details .scroll"), series);
  }

  function curveTable(place, series) {
    const rounds = [...new Set(series.flatMap((one) => one.points.map((p) => p.rounds)))].sort((a, b) => a - b);
    const values = series.map((one) => new Map(one.points.map((p) => [p.rounds, p.mean])));
    table(place, ["round", ...series.map((one) => one.row.label)], rounds.map((round) => [round.toLocaleString("en"), ...values.map((of) => short(of.get(round)))]));
  }

  // ------------------------------------------------------------ points

  function points(figure, rows, x, y, words, more, first = []) {
    const groups = [];
    const published = rows.filter((row) => row.kind === "published");
    const others = groupBy(rows.filter((row) => row.kind !== "run"), (row) => row.paper || "reproduced here");
    for (const [name, found] of others) groups.push({ name, rows: found, symbol: name === "reproduced here" ? "hexagon" : PAPERS[groups.length % PAPERS.length], size: 9, shade: css("--muted"), published: true });
    for (const row of rows.filter((one) => one.kind === "run")) groups.push({ name: row.label, rows: [row], symbol: MARKERS[row.mark], size: 11, shade: color(row.mark) });
    const bars = (found, axis) => ({ type: "data", array: found.map((row) => axis.std(row) ?? 0), color: css("--muted"), thickness: 1, width: 0, visible: found.some((row) => axis.std(row)) });
    const traces = groups.map((group) => ({
      x: group.rows.map(x.value),
      y: group.rows.map(y.value),
      error_x: bars(group.rows, x),
      error_y: bars(group.rows, y),
      mode: "markers",
      type: "scatter",
      name: plain(group.name),
      marker: { symbol: group.symbol, size: group.size, color: group.shade, line: { width: group.published ? 1.5 : 1, color: group.published ? group.shade : css("--surface") } },
      text: group.rows.map((row) => `${plain(row.label)}<br>${plain(row.source)}<br>${plain(x.name)} ${x.text(row)}<br>${plain(y.name)} ${y.text(row)}`),
      hoverinfo: "text",
    }));
    const own = rows.filter((row) => row.kind === "run").map((row) => `${row.label} at ${x.text(row)}, ${y.text(row)}`);
    const beside = published.length ? `${published.length} published rows and ` : "";
    draw(figure, [...first, ...traces], layout(x.title, y.title, { height: 380, showlegend: true, ...more }), `${words}: ${beside}${own.length} runs. ${own.join("; ")}`);
  }

  function columnAxis(column) {
    const value = (row) => row.values[column.key][0];
    return { value, std: (row) => row.values[column.key][1], text: (row) => short(value(row), column.digits), name: column.name, title: column.label };
  }

  function scatter(figure, rows, across, up) {
    const found = rows.filter((row) => row.values[across.key] && row.values[up.key]);
    const [x, y] = [columnAxis(across), columnAxis(up)];
    const ends = found.flatMap((row) => [x, y].flatMap((axis) => [axis.value(row) - (axis.std(row) ?? 0), axis.value(row) + (axis.std(row) ?? 0)]));
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const equal = { type: "line", x0: low, y0: low, x1: high, y1: high, layer: "below", line: { color: css("--muted"), width: 1, dash: "dot" } };
    const shapes = across.unit && across.unit === up.unit ? [equal] : [];
    figure.querySelector(".reading").textContent = `${shapes.length ? "On the dotted line both are equal. " : ""}The values are in the table.`;
    points(figure, found, x, y, `${up.name} against ${across.name}`, { shapes });
  }

  function spectra(figure, rows) {
    const found = rows.flatMap((row) => row.data.filter((run) => run.spectrum.length).map((run) => ({ row, run })));
    const traces = found.map(({ row, run }) => ({
      x: run.spectrum.map((_, i) => i + 1),
      y: run.spectrum,
      name: plain(`${row.label}, seed ${run.seed}`),
      mode: "lines+markers",
      type: "scatter",
      line: { color: color(row.mark), width: 2, dash: DASHES[row.mark] },
      marker: { symbol: MARKERS[row.mark], size: 6, color: color(row.mark) },
    }));
    const words = found.map(({ row, run }) => `${row.label}, seed ${run.seed}, from ${short(run.spectrum[0])}`);
    draw(figure, traces, layout("number", "eigenvalue", { height: 340, showlegend: true }), `Largest Hessian eigenvalues: ${words.join("; ")}`);
  }

  function traffic(figure, rows, up, unit) {
    const found = rows.filter((row) => row.values[up.key] && row.traffic !== null);
    const scale = unit === "bytes" ? byteUnit(Math.max(...found.map((row) => row.traffic))) : { factor: 1, name: "" };
    const x = {
      value: (row) => row.traffic / scale.factor,
      std: () => null,
      text: (row) => (unit === "bytes" ? bytes(row.traffic) : `${row.traffic.toPrecision(3)} of FedAvg's`),
      name: "traffic",
      title: unit === "bytes" ? `traffic (${scale.name})` : "traffic, relative to FedAvg's",
    };
    points(figure, found, x, columnAxis(up), `${up.name} against traffic`, { xaxis: { rangemode: "tozero" } });
  }

  // ------------------------------------------------------------ years

  const dated = (rows, column) => rows.filter((row) => row.year && row.values[column.key]);
  const yearsOf = (rows, column) => [...new Set(dated(rows, column).map((row) => row.year))].sort();

  function years(figure, rows, column) {
    const found = dated(rows, column);
    const published = found.filter((row) => row.kind === "published");
    const value = (row) => row.values[column.key][0];
    const better = column.higher ? Math.max : Math.min;
    const all = yearsOf(found, column);
    const best = all.map((year) => published.filter((row) => row.year <= year).map(value)).map((until) => (until.length ? better(...until) : null));
    const line = { x: all, y: best, mode: "lines", type: "scatter", name: "best published", hoverinfo: "skip", line: { shape: "hv", color: css("--muted"), width: 2 } };
    const x = { value: (row) => row.year, std: () => null, text: (row) => String(row.year), name: "year", title: "year" };
    points(figure, found, x, columnAxis(column), `${column.name} over the years`, { xaxis: { dtick: 1, tickformat: "d" } }, [line]);
  }

  // ------------------------------------------------------------ maps

  function mix(share) {
    const at = Math.max(0, Math.min(1, share)) * (SCALE.length - 1);
    const [a, b] = [SCALE[Math.floor(at)], SCALE[Math.ceil(at)]];
    return [1, 3, 5].map((i) => {
      const [from, to] = [parseInt(a.slice(i, i + 2), 16), parseInt(b.slice(i, i + 2), 16)];
      return Math.round(from + (to - from) * (at - Math.floor(at)));
    });
  }

  function luminance(rgb) {
    const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  // A table of plain texts; the first column heads its row.
  function table(place, head, rows) {
    const made = document.createElement("table");
    const line = made.createTHead().insertRow();
    head.forEach((text, i) => {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = text;
      if (i) cell.className = "number";
      line.append(cell);
    });
    const body = made.createTBody();
    for (const texts of rows) {
      const row = body.insertRow();
      texts.forEach((text, i) => {
        const cell = document.createElement(i ? "td" : "th");
        if (i) cell.className = "number";
        else cell.scope = "row";
        cell.textContent = text;
        row.append(cell);
      });
    }
    place.replaceChildren(made);
    return made;
  }

  // A map of percentages: a table with a color behind each number; a total stands apart.
  function heat(place, head, rows, total = false) {
    const made = table(place, head, rows.map(([name, ...values]) => [name, ...values.map((v) => short(v, 1))]));
    made.classList.add("heat");
    made.classList.toggle("with-total", total);
    rows.forEach(([, ...values], i) => {
      values.forEach((value, j) => {
        if (value === null || value === undefined) return;
        const rgb = mix(value / 100);
        const cell = made.tBodies[0].rows[i].cells[j + 1];
        cell.style.backgroundColor = `rgb(${rgb.join(", ")})`;
        cell.style.color = luminance(rgb) > 0.179 ? "#000" : "#fff";
      });
    });
  }

  function clients(figure, found) {
    const rounds = found.rounds.map(String);
    const steps = SCALE.map((shade, i) => [i / (SCALE.length - 1), shade]);
    const every = Math.ceil(found.names.length / 30); // the client whose name stands at the axis
    const places = found.names.map((_, i) => i).filter((i) => i % every === 0);
    draw(
      figure,
      [{
        type: "heatmap",
        x: rounds,
        y: found.names.map((_, i) => i),
        z: found.values,
        zmin: 0,
        zmax: 100,
        colorscale: steps,
        colorbar: { title: { text: "%" }, thickness: 12, outlinewidth: 0, tickfont: { color: css("--ink") } },
        text: found.names.map((name, i) => rounds.map((round, j) => `${plain(name)}<br>round ${round}: ${short(found.values[i][j], 1)}`)),
        hoverinfo: "text",
      }],
      layout("round", "client", {
        height: Math.max(300, Math.min(720, 90 + 18 * found.names.length)),
        xaxis: { type: "category", nticks: 12, showgrid: false },
        yaxis: { autorange: "reversed", showgrid: false, tickvals: places, ticktext: places.map((i) => plain(found.names[i])) },
      }),
      `Accuracy of ${found.names.length} clients over ${rounds.length} rounds; minimum, mean and maximum are in the table below.`,
    );
    figure.querySelector(".reading").textContent = `Each line is a client, tested on ${found.images}; clients with the same main class are next to each other.`;
    table(figure.querySelector("details .scroll"), ["round", "minimum", "mean", "maximum"], found.rounds.map((round, j) => {
      const values = found.values.map((line) => line[j]).filter((v) => v !== null);
      if (!values.length) return [String(round), "-", "-", "-"];
      return [round.toLocaleString("en"), short(Math.min(...values), 1), short(values.reduce((a, b) => a + b, 0) / values.length, 1), short(Math.max(...values), 1)];
    }));
  }

  return { curves, scatter, spectra, years, yearsOf, traffic, clients, heat, clear };
})();
