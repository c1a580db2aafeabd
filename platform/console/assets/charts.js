// Draws charts with uPlot: values from data-chart, marks and colors from the legend beside it, so that both are the same.
"use strict";

(() => {
  const DAY_S = 86400;
  const LANGUAGE = document.documentElement.lang;  // of numbers, as in the tables; times are in the viewer's
  const PRINT_WIDTH = 660;  // CSS pixels between the margins of A4 and of Letter
  const numbers = new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: 4 });
  const at = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const hour = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" });
  const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
  const month = new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric" });
  const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];  // of lines, by series
  const charts = new Map();  // of each element: its picture

  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

  // What a series looks like, as the legend shows it.
  function looks(element) {
    const style = getComputedStyle(element);
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const figure = element.closest("figure");
    const marks = [...figure.querySelectorAll(".chart-legend .series svg")].map((mark) => ({
      color: getComputedStyle(mark).color,
      path: new Path2D(mark.querySelector("path").getAttribute("d")),
    }));
    return {
      rem,
      marks,
      font: `${Math.round(0.75 * rem)}px ${style.fontFamily}`,
      quiet: style.getPropertyValue("--quiet").trim(),
      line: style.getPropertyValue("--line").trim(),
      bound: style.getPropertyValue("--bad").trim(),
      surface: style.getPropertyValue("--surface").trim(),
    };
  }

  function columns(chart) {
    const places = [...new Set(chart.series.flatMap((series) => series.points.map((point) => point.x)))].sort((a, b) => a - b);
    const rows = chart.series.map((series) => {
      const values = new Map(series.points.map((point) => [point.x, point.y]));
      return places.map((place) => values.get(place) ?? null);
    });
    return [places, ...rows];
  }

  function verticalRange(chart) {
    const values = chart.lines.map((line) => line.value);
    for (const series of chart.series) {
      for (const point of series.points) {
        values.push(point.y, point.low, point.high);
      }
      if (series.style === "steps") {
        values.push(0);
      }
    }
    const known = values.filter(isNumber);
    const low = Math.min(...known), high = Math.max(...known);
    const room = high > low ? 0.08 * (high - low) : Math.abs(high) * 0.1 || 1;
    return [low === 0 ? 0 : low - room, high + room];
  }

  // With room at both ends for marks that stand beside their place.
  function horizontalRange(chart, places, width) {
    const low = places[0], high = places[places.length - 1];
    const least = chart.x.kind === "time" ? DAY_S / 2 : 1;
    const room = high > low ? (high - low) * Math.max(0.03, 28 / width) : least;
    return [low - room, high + room];
  }

  function timeWords(_plot, splits, _axis, _space, step) {
    let last = "";
    return splits.map((split) => {
      const date = new Date(split * 1000);
      if (step >= 28 * DAY_S) {
        return month.format(date);
      }
      if (step >= DAY_S) {
        return day.format(date);
      }
      const today = day.format(date);
      const words = today === last ? hour.format(date) : `${hour.format(date)}\n${today}`;
      last = today;
      return words;
    });
  }

  function widthOfWords(plot, words, index, cycle) {
    const axis = plot.axes[index];
    if (cycle > 1) {
      return axis._size;
    }
    plot.ctx.font = axis.font[0];
    const widths = (words ?? []).map((word) => plot.ctx.measureText(word).width / devicePixelRatio);
    return Math.ceil(axis.ticks.size + axis.gap + Math.max(0, ...widths));
  }

  function drawLines(plot, chart, look) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio;
    for (const line of chart.lines) {
      const y = Math.round(plot.valToPos(line.value, "y", true));
      ctx.save();
      ctx.strokeStyle = line.is_bound ? look.bound : look.quiet;
      ctx.lineWidth = (line.is_bound ? 2 : 1) * ratio;
      ctx.setLineDash(line.is_bound ? [6 * ratio, 4 * ratio] : []);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.restore();
    }
  }

  function drawMark(ctx, mark, x, y, size, surface) {
    ctx.save();
    ctx.translate(x, y);
    ctx.scale(size, size);
    ctx.lineJoin = "round";
    ctx.lineWidth = 3 * devicePixelRatio / size;
    ctx.strokeStyle = surface;  // so that marks on each other stay apart
    ctx.stroke(mark.path);
    ctx.fillStyle = mark.color;
    ctx.fill(mark.path);
    ctx.restore();
  }

  // From the value to both ends; an end that is unbounded reaches the edge with an open mark.
  function drawInterval(plot, point, x, color) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio;
    if (point.low === null && point.high === null) {
      return;
    }
    const cap = 4 * ratio, head = 6 * ratio;
    ctx.save();
    ctx.strokeStyle = color;
    ctx.lineWidth = 2 * ratio;
    ctx.lineJoin = "round";
    ctx.beginPath();
    const ends = [[point.low, bbox.top + bbox.height, -1], [point.high, bbox.top, 1]].map(([end, edge, way]) => {
      if (isNumber(end)) {
        const y = plot.valToPos(end, "y", true);
        ctx.moveTo(x - cap, y);
        ctx.lineTo(x + cap, y);
        return y;
      }
      const tip = edge + way * ratio;
      ctx.moveTo(x - head, tip + way * head);
      ctx.lineTo(x, tip);
      ctx.lineTo(x + head, tip + way * head);
      ctx.closePath();
      return tip + way * head;
    });
    ctx.moveTo(x, ends[0]);
    ctx.lineTo(x, ends[1]);
    ctx.stroke();
    ctx.restore();
  }

  function drawBand(plot, series, color) {
    const { ctx } = plot;
    const points = series.points.filter((point) => isNumber(point.low) && isNumber(point.high));
    if (points.length < 2) {
      return;
    }
    ctx.save();
    ctx.globalAlpha = 0.18;
    ctx.fillStyle = color;
    ctx.beginPath();
    for (const [ends, key] of [[points, "high"], [[...points].reverse(), "low"]]) {
      for (const point of ends) {
        ctx.lineTo(plot.valToPos(point.x, "x", true), plot.valToPos(point[key], "y", true));
      }
    }
    ctx.fill();
    ctx.restore();
  }

  // Intervals of several series at one place stand side by side.
  function shift(chart, index) {
    const some = chart.series.flatMap((series, number) => series.style === "intervals" ? [number] : []);
    return some.length < 2 ? 0 : (some.indexOf(index) - (some.length - 1) / 2) * Math.min(10, 30 / some.length);
  }

  function drawSeries(plot, chart, look) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    chart.series.forEach((series, index) => {
      const mark = look.marks[index];
      const isInterval = series.style === "intervals";
      if (series.style === "curve") {
        drawBand(plot, series, mark.color);
      }
      const every = isInterval ? 1 : Math.ceil(series.points.length / 12);  // marks on a line only tell it from others
      series.points.forEach((point, number) => {
        const x = plot.valToPos(point.x, "x", true) + (isInterval ? shift(chart, index) * ratio : 0);
        if (isInterval) {
          drawInterval(plot, point, x, mark.color);
        }
        if (isNumber(point.y) && number % every === 0) {
          drawMark(ctx, mark, x, plot.valToPos(point.y, "y", true), (isInterval ? 5 : 4) * ratio * look.rem / 16, look.surface);
        }
      });
    });
    ctx.restore();
  }

  const place = (chart, x) => (chart.x.kind === "time" ? at.format(new Date(x * 1000)) : `${chart.x.title} ${numbers.format(x)}`);

  function words(chart, point) {
    const unit = chart.y.unit ? ` ${chart.y.unit}` : "";
    const value = isNumber(point.y) ? `${numbers.format(point.y)}${unit}` : "unknown";
    if (point.low === null && point.high === null) {
      return value;
    }
    const end = (bound, sign) => (isNumber(bound) ? numbers.format(bound) : `${sign}∞`);
    return `${value} [${end(point.low, "−")}, ${end(point.high, "+")}]`;
  }

  // What lies nearest to the pointer, in words.
  function tip(chart, element) {
    const box = document.createElement("div");
    box.className = "chart-tip";
    box.hidden = true;
    const show = (plot) => {
      const { left } = plot.cursor;
      const places = plot.data[0];
      const near = places.reduce((best, x) => Math.abs(plot.valToPos(x, "x") - left) < Math.abs(plot.valToPos(best, "x") - left) ? x : best, places[0]);
      const x = plot.valToPos(near, "x");
      box.hidden = left < 0 || Math.abs(x - left) > 60;
      if (box.hidden) {
        return;
      }
      const head = document.createElement("strong");
      head.textContent = place(chart, near);
      const rows = chart.series.flatMap((series) => series.points.filter((point) => point.x === near).map((point) => {
        const row = document.createElement("div");
        row.textContent = `${series.name}: ${words(chart, point)}`;
        return row;
      }));
      box.replaceChildren(head, ...rows);
      const room = plot.over.clientWidth - box.offsetWidth;
      box.style.left = `${Math.max(0, Math.min(room, x - box.offsetWidth / 2))}px`;
      const top = plot.cursor.top > plot.over.clientHeight / 2 ? 0 : plot.over.clientHeight - box.offsetHeight;
      box.style.top = `${top}px`;
    };
    return {
      hooks: {
        ready: (plot) => plot.over.append(box),
        setCursor: show,
      },
      element,
    };
  }

  function options(chart, element, look, size) {
    const axis = { font: look.font, labelFont: look.font, stroke: look.quiet, grid: { stroke: look.line, width: 1 }, ticks: { stroke: look.line, size: 4 }, gap: 4 };
    const isTime = chart.x.kind === "time";
    const data = columns(chart);
    const lines = {
      steps: () => uPlot.paths.stepped({ align: 1 }),
      curve: () => uPlot.paths.linear(),
      intervals: () => () => null,
    };
    return [{
      ...size,
      padding: [8, 2 * look.rem, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false, setScale: false } },
      scales: {
        x: { time: isTime, range: (plot) => horizontalRange(chart, data[0], plot.width) },
        y: { range: () => verticalRange(chart) },
      },
      axes: [
        {
          ...axis,
          space: 5 * look.rem,
          size: (_plot, words) => ((words ?? []).some((word) => word.includes("\n")) ? 2.7 : 1.6) * look.rem,
          ...(isTime ? { values: timeWords } : { label: chart.x.words, labelSize: 1.2 * look.rem, values: (_plot, splits) => splits.map((split) => numbers.format(split)) }),
        },
        { ...axis, space: 2.2 * look.rem, size: widthOfWords, values: (_plot, splits) => splits.map((split) => numbers.format(split)) },
      ],
      series: [{}, ...chart.series.map((series, index) => ({
        paths: lines[series.style](),
        points: { show: false },
        spanGaps: true,
        stroke: look.marks[index].color,
        width: 2,
        dash: DASHES[index % DASHES.length],
      }))],
      hooks: {
        drawAxes: [(plot) => drawLines(plot, chart, look)],
        draw: [(plot) => drawSeries(plot, chart, look)],
      },
      plugins: [tip(chart, element)],
    }, data];
  }

  function sizeOf(element) {
    return { width: Math.max(120, element.clientWidth), height: Math.max(80, element.clientHeight) };
  }

  function draw(element, size = sizeOf(element)) {
    const before = charts.get(element);
    const text = element.dataset.chart;
    const chart = JSON.parse(text);
    const [settings, data] = options(chart, element, looks(element), size);
    const cursor = before?.plot.cursor;
    before?.plot.destroy();
    const plot = new uPlot(settings, data, element);
    if (cursor && cursor.left >= 0) {
      plot.setCursor({ left: cursor.left, top: cursor.top });
    }
    charts.set(element, { plot, text });
    if (!before) {
      resized.observe(element);
    }
  }

  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const known = charts.get(target);
      const size = sizeOf(target);
      if (known && (known.plot.width !== size.width || known.plot.height !== size.height)) {
        known.plot.setSize(size);
      }
    }
  });

  // Draws what is new or has other values; forgets what left the page.
  function drawAll(root) {
    for (const element of charts.keys()) {
      if (!element.isConnected) {
        resized.unobserve(element);
        charts.get(element).plot.destroy();
        charts.delete(element);
      }
    }
    for (const element of root.querySelectorAll(".chart-plot[data-chart]")) {
      if (charts.get(element)?.text !== element.dataset.chart) {
        draw(element);
      }
    }
  }

  function again(size) {
    for (const element of charts.keys()) {
      draw(element, size ? { ...sizeOf(element), ...size } : undefined);
    }
  }

  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
    matchMedia(query).addEventListener("change", () => again());
  }
  let theme;
  addEventListener("beforeprint", () => {  // paper is light
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    again({ width: PRINT_WIDTH });
  });
  addEventListener("afterprint", () => {
    document.documentElement.dataset.theme = theme;
    again();
  });

  window.alcove.drawCharts = drawAll;
})();
