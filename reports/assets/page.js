"use strict";
(() => {
  const data = JSON.parse(document.getElementById("timeline").textContent);
  const root = document.getElementById("charts");
  const left = 46, right = 12; // of every chart, so that all share one axis with the lanes
  const css = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const end = data.t.length ? data.t[data.t.length - 1] + data.step : 1;
  const charts = [];
  let range = [0, end];

  const element = (tag, parent, props) => Object.assign(parent.appendChild(document.createElement(tag)), props);
  const seconds = v => v >= 3600 ? (v / 3600).toFixed(1) + " h" : v + " s";

  // What was going on, as lanes above the charts: one for phases that follow each other, one for each overlap.
  const lanes = element("div", root, {className: "lanes"});
  const rows = [];
  const doubled = band => band.what === "phase" && data.bands.some(b => b.what !== "phase" && b.name === band.name);
  const cost = b => [[b.lost, "lost"], [b.damaged, "recordings"]].filter(([n]) => n).map(([n, word]) => `${n} ${word}`).join(", ");
  const label = b => [b.name, cost(b)].filter(Boolean).join(" · ");
  const wants = b => 7 * label(b).length + 12; // pixels
  const wide = (root.clientWidth - left - right) / end;
  for (const band of data.bands) {
    if (doubled(band)) continue;
    const kind = band.what === "phase" ? 0 : 1;
    // The name of a fault or a rollout stands beside a band that is too narrow for it, where no other may be.
    const beside = kind ? wants(band) / wide : 0, flips = kind && band.from + beside > end;
    const from = flips ? Math.min(band.from, band.to - beside) : band.from;
    let row = rows.find(r => r.kind === kind && r.to <= from);
    if (!row) rows.push(row = {kind, items: [], to: 0});
    row.items.push(band);
    row.to = Math.max(band.to, band.from + end / 50, flips ? 0 : band.from + beside);
  }
  rows.sort((a, b) => a.kind - b.kind);
  const spans = [];
  for (const row of rows) {
    const lane = element("div", lanes, {className: "lane"});
    for (const band of row.items) {
      const title = `${band.what} ${band.name}, ${band.from.toFixed(1)} to ${band.to.toFixed(1)} s${band.detail ? ": " + band.detail : ""}${band.what === "phase" ? "" : "; cost: " + (cost(band) || "nothing lost")}`;
      const span = element("span", lane, {className: band.what, title});
      element("em", span, {textContent: label(band)}).style.fontStyle = "normal";
      spans.push({band, span});
    }
  }
  function placeLanes() {
    const width = root.clientWidth - left - right, [a, b] = range, scale = width / (b - a);
    lanes.style.marginLeft = left + "px";
    lanes.style.marginRight = right + "px";
    for (const {band, span} of spans) {
      const from = Math.max(band.from, a), to = Math.min(band.to, b);
      span.hidden = band.to < a || band.from > b;
      const px = Math.max((to - from) * scale, 3), need = wants(band);
      const free = width - (from - a) * scale;
      span.style.left = (from - a) * scale + "px";
      span.style.width = px + "px";
      span.firstChild.hidden = band.what === "phase" && px < 30; // a letter tells nothing; the title tells all
      span.classList.toggle("out", px < need && band.what !== "phase");
      span.classList.toggle("flip", px < need && free < need);
    }
  }

  // Faults and rollouts shade every chart.
  const shade = {hooks: {drawClear: u => {
    const {ctx, bbox} = u;
    ctx.save();
    for (const band of data.bands) {
      if (band.what === "phase") continue;
      const a = Math.max(u.valToPos(band.from, "x", true), bbox.left);
      const b = Math.min(u.valToPos(band.to, "x", true), bbox.left + bbox.width);
      if (b < bbox.left || a > bbox.left + bbox.width) continue;
      ctx.fillStyle = css(band.what);
      ctx.fillRect(a, bbox.top, Math.max(b - a, 1), bbox.height);
      ctx.fillStyle = css(band.what + "-line");
      ctx.fillRect(a, bbox.top, devicePixelRatio, bbox.height);
    }
    ctx.restore();
  }}};

  const axes = (last, unit) => [
    {show: last, stroke: () => css("soft"), grid: {stroke: () => css("grid"), width: 1}, ticks: {stroke: () => css("line"), width: 1, size: 5},
      size: 30, font: "12px system-ui,sans-serif", values: (u, vs) => vs.map(v => seconds(v))},
    {stroke: () => css("soft"), grid: {stroke: () => css("grid"), width: 1}, ticks: {show: false}, size: left, gap: 4,
      font: "12px system-ui,sans-serif", space: 26, incrs: unit ? undefined : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5],
      values: (u, vs) => vs.map(v => v >= 1e4 ? v / 1e3 + "k" : v)},
  ];

  function draw(title, series, values, {height = 110, last = false, unit = "", top} = {}) {
    const box = element("div", root, {className: "chart"});
    const head = element("h3", box, {textContent: title});
    head.appendChild(document.createTextNode(" "));
    const keys = series.map(s => {
      const key = element("span", head, {className: "key"});
      element("i", key).style.background = `var(--${s.color})`;
      key.appendChild(document.createTextNode(s.label + " "));
      return element("b", key);
    });
    const show = i => keys.forEach((k, n) => {
      const v = i == null ? null : values[n][i];
      k.textContent = v == null ? "" : (Math.round(v * 10) / 10) + unit;
    });
    const peak = top || Math.max(1, ...values.flat().filter(v => v != null));
    const chart = new uPlot({
      width: root.clientWidth, height: height + (last ? 30 : 0), padding: [6, right, last ? 0 : 6, 0], legend: {show: false},
      cursor: {sync: {key: "run", setSeries: false}, drag: {x: true, y: false}, points: {show: false}, y: false},
      scales: {x: {time: false, range: (u, a, b) => a == null ? [0, end] : [a, b]}, y: {range: (u, a, b) => [0, Math.max(b ?? 0, peak) * 1.08]}},
      axes: axes(last, unit), plugins: [shade],
      series: [{}, ...series.map(s => ({
        stroke: () => css(s.color), width: s.width || 1.6, dash: s.dash, points: {show: false}, spanGaps: false,
        fill: s.fill ? () => css(s.color) + (s.bars ? "" : "22") : undefined,
        paths: s.bars ? uPlot.paths.bars({size: [0.9, 40], align: 1, gap: 0}) : s.line ? undefined : uPlot.paths.stepped({align: 1}),
      }))],
      hooks: {
        setCursor: [u => show(u.cursor.idx)],
        setScale: [(u, key) => {
          if (key !== "x") return;
          const {min, max} = u.scales.x;
          if (min === range[0] && max === range[1]) return;
          range = [min, max];
          for (const c of charts) if (c !== u) c.setScale("x", {min, max});
          placeLanes();
        }],
      },
    }, [data.t, ...values], box);
    chart.root.setAttribute("role", "img");
    chart.root.setAttribute("aria-label", title + " over time; described below the charts");
    charts.push(chart);
  }

  for (const c of [...data.components].sort((a, b) => !a.serving - !b.serving)) {
    const series = [], values = [];
    if (c.serving) { series.push({label: "serving", color: "serving", fill: true, width: 2}); values.push(c.serving); }
    series.push({label: "ready", color: "ready", width: 1.6, dash: c.serving ? [5, 3] : undefined}); values.push(c.ready);
    series.push({label: "desired", color: "desired", width: 1, dash: [2, 4]}); values.push(data.t.map(() => c.desired));
    draw(c.name + " pods", series, values, {height: 84, top: c.desired + 0.4});
  }
  draw("Sessions held", [{label: "held", color: "held", fill: true}], [data.held], {height: 120});
  const per = data.step === 1 ? "a second" : `in ${data.step} s`;
  draw(`Sessions opened and lost ${per}`,
    [{label: "opened", color: "opens", fill: true, bars: true, width: 0}, {label: "refused", color: "refused", fill: true, bars: true, width: 0}, {label: "dropped", color: "drops", fill: true, bars: true, width: 0}],
    [data.opens, data.refused.map(v => v || null), data.drops.map(v => v || null)], {height: 110});
  const palette = ["serving", "ready", "held", "opens", "latency", "drops", "refused", "desired"];
  for (const plot of data.plots || [])
    draw(plot.title, plot.series.map((s, i) => ({label: s.name, color: palette[i % palette.length], line: true})), plot.series.map(s => s.v), {height: 110, unit: " "});
  draw("Latency of opening (ms)", [{label: "p99", color: "latency", line: true}], [data.p99Ms], {height: 110, last: true, unit: " ms"});

  placeLanes();
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    for (const c of charts) c.setSize({width, height: c.height});
    placeLanes();
  }).observe(root);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(c => c.redraw(false)));
})();
