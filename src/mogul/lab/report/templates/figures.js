"use strict";
// Figures: each is drawn when it comes into view, by plotly, which is not even parsed before the first of them.
(() => {
  const CHOICES = {
    mode: [["error", "predicted − true"], ["value", "predicted"]],
    axis: [["epoch", "epochs"], ["seconds", "seconds"]],
    score: [["rmse", "RMSE"], ["ll", "log likelihood"]],
    gap: [["covered", "share inside"], ["gap", "share inside − level"]],
  };
  const BEST = 4;
  const boards = new Map();

  const plotly = () => {
    if (!window.Plotly) {
      const script = document.createElement("script");
      script.textContent = document.getElementById("plotly").textContent;
      document.head.append(script);
    }
    return window.Plotly;
  };

  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    return {
      ink: get("--ink"), muted: get("--muted"), rule: get("--rule"), bad: get("--bad"), model: get("--model"),
      baseline: get("--baseline"), faint: get("--faint"),
      series: [1, 2, 3, 4, 5, 6].map((place) => get(`--series-${place}`)),
    };
  };

  // What is chosen on a board, and the data it is chosen from: read when the first figure is drawn.
  const boardOf = (element) => {
    const root = element.closest(".board");
    if (!boards.has(root)) {
      const data = JSON.parse(root.querySelector("script.data").textContent);
      boards.set(root, { root, data, chosen: { job: 0, output: 0, mode: "error", axis: "epoch", score: "rmse", gap: "covered" } });
      fillChoices(boards.get(root));
    }
    return boards.get(root);
  };

  const outputNames = (job) => job.outputs?.names
    ?? (job.predictions?.error ?? []).map((_, place) => `output ${place + 1}`);

  const options = (select, pairs, chosen) => {
    select.replaceChildren(...pairs.map(([value, text]) => new Option(text, value, false, String(value) === String(chosen))));
  };

  const fillChoices = (board) => {
    const { root, data, chosen } = board;
    for (const select of root.querySelectorAll("select[data-choice]")) {
      const name = select.dataset.choice;
      const pairs = name === "job" ? data.jobs.map((job, place) => [place, job.name])
        : name === "output" ? outputNames(data.jobs[chosen.job]).map((text, place) => [place, text]) : CHOICES[name];
      options(select, pairs, chosen[name]);
      select.disabled = pairs.length < 2;
    }
    const command = root.querySelector("[data-command]");
    if (command) command.textContent = data.jobs[chosen.job].command || "no command recorded";
  };

  // The chosen job, drawn in bold, then the best of each kind, none twice.
  const compared = (board, has) => {
    const { data, chosen } = board;
    const places = [...data.jobs.keys()].filter((place) => has(data.jobs[place]));
    const ours = places.filter((place) => data.jobs[place].kind === "model").slice(0, BEST);
    const baseline = places.find((place) => data.jobs[place].kind === "baseline");
    const picked = [...new Set([chosen.job, ...ours, baseline])].filter((place) => places.includes(place));
    return picked.map((place, number) => ({ job: data.jobs[place], number, bold: place === chosen.job }));
  };

  const line = (each, c) => ({
    color: each.bold ? c.series[0] : c.series[1 + ((each.number - 1 + c.series.length - 1) % (c.series.length - 1))],
    width: each.bold ? 3 : 1.5,
    dash: each.job.kind === "baseline" ? "dot" : "solid",
  });

  const draw = {
    sweep(board, c) {
      const { sweep } = board.data;
      const traces = [];
      const coloured = sweep.curves.filter((curve) => !curve.reference);
      sweep.panels.forEach((panel, place) => sweep.curves.forEach((curve) => {
        const { at, mean, sd } = curve.drawn[panel.metric];
        const color = curve.reference ? c.ink : c.series[coloured.indexOf(curve) % c.series.length];
        traces.push({
          x: at, y: mean, name: curve.label, legendgroup: curve.label, showlegend: place === 0,
          mode: curve.level ? "lines" : "lines+markers", line: { color, dash: curve.dash, width: 2 },
          marker: { size: 7 }, xaxis: place ? `x${place + 1}` : "x", yaxis: place ? `y${place + 1}` : "y",
          error_y: { type: "data", array: curve.level ? [] : sd.map((each) => each ?? 0), thickness: 1, width: 3,
            visible: sd.some((each) => each !== null) && !curve.level },
        });
      }));
      const narrow = board.root.clientWidth < 640;
      const layout = {
        grid: { rows: narrow ? sweep.panels.length : 1, columns: narrow ? 1 : sweep.panels.length, pattern: "independent",
          xgap: 0.16, ygap: 0.3 },
        height: narrow ? 300 * sweep.panels.length : 360,
      };
      sweep.panels.forEach((panel, place) => {
        const suffix = place ? place + 1 : "";
        layout[`xaxis${suffix}`] = { title: { text: sweep.axis } };
        layout[`yaxis${suffix}`] = { title: { text: panel.title } };
      });
      return { traces, layout, says: `${sweep.panels.map((panel) => panel.title).join(" and ")} against ${sweep.axis}` };
    },

    predictions(board, c) {
      const job = board.data.jobs[board.chosen.job];
      if (!job.predictions) return { missing: "No predictions were kept of this model." };
      const truth = board.data.truths[job.predictions.truth][board.chosen.output] ?? [];
      const [error, std] = ["error", "std"].map((word) => job.predictions[word][board.chosen.output] ?? []);
      const rows = [...truth.keys()].filter((row) => truth[row] !== null && error[row] !== null);
      const flat = board.chosen.mode === "error";
      const inside = (row) => Math.abs(error[row]) <= 1.96 * std[row];
      const points = (name, kept, color) => ({
        name, mode: "markers", x: kept.map((row) => truth[row]),
        y: kept.map((row) => (flat ? error[row] : truth[row] + error[row])), marker: { color, size: 6 },
        error_y: { type: "data", array: kept.map((row) => 1.96 * std[row]), color, thickness: 1, width: 0 },
      });
      const ends = [Math.min(...rows.map((row) => truth[row])), Math.max(...rows.map((row) => truth[row]))];
      const traces = [
        { x: ends, y: flat ? [0, 0] : ends, mode: "lines", line: { color: c.muted, width: 1 }, hoverinfo: "skip", showlegend: false },
        points("within its bar", rows.filter(inside), c.model),
        points("outside", rows.filter((row) => !inside(row)), c.bad),
      ];
      const name = outputNames(job)[board.chosen.output];
      const layout = { xaxis: { title: { text: `true ${name}` } }, yaxis: { title: { text: flat ? "predicted − true" : "predicted" } } };
      return { traces, layout, says: `${name} as predicted by ${job.name}, ± 1.96 standard deviations, against the truth` };
    },

    curves(board, c) {
      const lines = compared(board, (job) => job.curve);
      if (!lines.length) return { missing: "No learning curve was kept of any of these." };
      const axis = board.chosen.axis;
      const traces = lines.map((each) => ({
        x: each.job.curve[axis], y: each.job.curve.elbo, name: each.job.name, line: line(each, c),
        mode: each.job.curve.elbo.length < 3 ? "lines+markers" : "lines",
      }));
      // The first steps are so far below that they would flatten all that follows.
      const later = lines.map(({ job: { curve: { elbo } } }) => elbo.slice(Math.floor(elbo.length / 8))).flat()
        .filter((value) => value !== null);
      const [low, high] = [Math.min(...later), Math.max(...later)];
      const whole = axis === "epoch" && Math.max(...lines.map(({ job: { curve } }) => curve.epoch.at(-1))) <= 10;
      const layout = {
        xaxis: { title: { text: axis === "epoch" ? "epoch" : "seconds" }, ...(whole ? { dtick: 1 } : {}) },
        yaxis: { title: { text: "ELBO" }, range: [low - 0.05 * (high - low), high + 0.05 * (high - low)] },
      };
      const own = board.data.jobs[board.chosen.job];
      const none = own.kind === "baseline" ? "No learning curve is kept of baselines." : "No learning curve was kept of this model.";
      return { traces, layout, note: own.curve ? "" : none, says: "evidence lower bound while training" };
    },

    pit(board, c) {
      const job = board.data.jobs[board.chosen.job];
      const counts = job.calibration?.pit_counts;
      if (!counts) return { missing: "No calibration was kept of this model." };
      const total = counts.reduce((sum, count) => sum + count, 0);
      const width = 1 / counts.length;
      const traces = [{
        type: "bar", x: counts.map((_, place) => (place + 0.5) * width), y: counts.map((count) => count / total / width),
        width, marker: { color: c[job.kind], opacity: 0.75, line: { color: c.rule, width: 1 } }, name: job.name, showlegend: false,
      }];
      const layout = {
        xaxis: { title: { text: "P(output ≤ truth)" }, range: [0, 1] }, yaxis: { title: { text: "density" }, rangemode: "tozero" },
        shapes: [{ type: "line", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: c.ink, width: 1, dash: "dash" } }],
      };
      return { traces, layout, says: `histogram of the probability integral transform of ${job.name}` };
    },

    coverage(board, c) {
      const lines = compared(board, (job) => job.calibration?.levels && job.calibration?.covered);
      if (!lines.length) return { missing: "No calibration was kept." };
      const gap = board.chosen.gap === "gap";
      const inside = ({ levels, covered }) => (gap ? covered.map((share, place) => share - levels[place]) : covered);
      const traces = [
        { x: [0, 1], y: [0, gap ? 0 : 1], mode: "lines", line: { color: c.muted, width: 1 }, hoverinfo: "skip", showlegend: false },
        ...lines.map((each) => ({
          x: each.job.calibration.levels, y: inside(each.job.calibration), name: each.job.name, mode: "lines", line: line(each, c),
        })),
      ];
      const layout = {
        xaxis: { title: { text: "level of the band" }, range: [0, 1], tickformat: ".0%" },
        yaxis: { title: { text: gap ? "share inside − level" : "share of truths inside" }, tickformat: gap ? "+.0%" : ".0%",
          ...(gap ? {} : { range: [0, 1] }) },
      };
      return { traces, layout, says: "share of test values within central bands against the level of the bands" };
    },

    outputs(board, c) {
      const score = board.chosen.score;
      const lines = compared(board, (job) => job.outputs?.[score]);
      if (!lines.length) return { missing: "No scores of single outputs were kept." };
      const traces = lines.map((each) => ({
        x: each.job.outputs.names, y: each.job.outputs[score], name: each.job.name, mode: "lines+markers",
        line: line(each, c), marker: { size: each.bold ? 7 : 5 },
      }));
      const layout = {
        xaxis: { tickangle: -45, type: "category" },
        yaxis: score === "rmse" ? { title: { text: "RMSE" }, rangemode: "tozero" } : { title: { text: "log likelihood" } },
      };
      return { traces, layout, says: `${score === "rmse" ? "root mean squared error" : "log likelihood"} of each output` };
    },

    latent(board, c) {
      const job = board.data.jobs[board.chosen.job];
      if (!job.latent) return { missing: "This model has no latent inputs: choose one whose name ends in LVM." };
      const [x, y] = job.latent.mean;
      const colour = board.data.truths[job.latent.truth]?.[board.chosen.output];
      const scales = job.latent.scale;
      const traces = [{
        x, y: y ?? x.map(() => 0), mode: "markers", showlegend: false,
        marker: { size: 7, opacity: 0.85, color: colour ?? c.model, colorscale: "Viridis", showscale: Boolean(colour),
          colorbar: { thickness: 10, outlinewidth: 0 } },
        error_x: { type: "data", array: scales?.[0] ?? [], thickness: 0.5, width: 0, color: c.faint, visible: Boolean(scales) },
        error_y: { type: "data", array: scales?.[1] ?? [], thickness: 0.5, width: 0, color: c.faint, visible: Boolean(scales?.[1]) },
      }];
      const title = (place) => ({ title: { text: `latent input ${(job.latent.places[place] ?? 0) + 1}` } });
      const layout = { xaxis: title(0), yaxis: title(1) };
      return { traces, layout, note: colour ? "" : "Not coloured: the outputs of these rows were not kept.",
        says: `map of training rows in the latent space of ${job.name}` };
    },
  };

  // How tall the legend below a plot of this width becomes: as many names beside each other as fit.
  const legendHeight = (traces, width) => {
    const names = [...new Set(traces.filter((trace) => trace.showlegend !== false).map((trace) => trace.name))];
    if (names.length < 2) return 0;
    const longest = Math.max(...names.map((name) => name.length));
    return 20 * Math.ceil(names.length / Math.max(1, Math.floor((width - 60) / (7 * longest + 50)))) + 8;
  };

  const style = (traces, layout, c, width) => {
    const below = legendHeight(traces, width);
    const styled = {
      margin: { l: 62, r: 14, t: 8, b: 52 + below }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12.5, color: c.ink }, hovermode: "closest", showlegend: below > 0,
      legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0, font: { size: 12 } }, ...layout,
      height: (layout.height ?? 320) + below,
    };
    const touch = matchMedia("(pointer: coarse)").matches; // a finger that scrolls must not zoom
    for (const name of Object.keys(styled).filter((each) => /^[xy]axis/.test(each))) {
      const { title, ...rest } = styled[name];
      styled[name] = { gridcolor: c.rule, zerolinecolor: c.rule, linecolor: c.muted, automargin: true, fixedrange: touch,
        title: { ...title, standoff: 8, font: { size: 13 } }, ...rest };
    }
    return styled;
  };

  const show = (figure) => {
    const board = boardOf(figure);
    const plot = figure.querySelector(".plot");
    const c = colours();
    const { traces, layout, missing, note, says } = draw[figure.dataset.figure](board, c);
    figure.classList.toggle("missing", Boolean(missing));
    figure.dataset.drawn = "true";
    figure.querySelector(".note")?.remove();
    if (missing || note) {
      const text = document.createElement("p");
      text.className = "note";
      text.textContent = missing || note;
      plot.after(text);
    }
    if (missing) { if (window.Plotly) window.Plotly.purge(plot); return; }
    plot.setAttribute("aria-label", says);
    plotly().react(plot, traces, style(traces, layout, c, plot.clientWidth), { displayModeBar: false, responsive: true });
  };

  const drawn = (root) => [...root.querySelectorAll("[data-figure][data-drawn]")].filter((each) => each.offsetParent);

  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      watch.unobserve(entry.target);
      show(entry.target);
    }
  }, { rootMargin: "200px" });
  document.querySelectorAll("[data-figure]").forEach((figure) => watch.observe(figure));

  document.addEventListener("change", (event) => {
    const select = event.target.closest("select[data-choice]");
    if (!select) return;
    const board = boardOf(select);
    const name = select.dataset.choice;
    board.chosen[name] = name in CHOICES ? select.value : Number(select.value);
    if (name === "job") {
      board.chosen.output = Math.min(board.chosen.output, Math.max(0, outputNames(board.data.jobs[board.chosen.job]).length - 1));
      fillChoices(board);
    }
    drawn(board.root).forEach(show);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn(document).forEach(show));
})();
