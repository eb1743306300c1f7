// What can be seen to be wrong with a page: a list of texts. `width` is that of the window.
(width, least) => {
  const flaws = new Set();
  const named = (e) => {
    const kind = e.getAttribute("class");
    return `<${e.localName}${kind ? ` class="${kind}"` : ""}>`;
  };
  const opacity = (e) => (e ? Number(getComputedStyle(e).opacity) * opacity(e.parentElement) : 1);

  // --- nothing is wider than the window, unless it scrolls or is hidden within something that is not ---
  const clipped = (e) => {
    for (let p = e; p && p !== document.body; p = p.parentElement) {
      const style = getComputedStyle(p);
      if (style.position === "fixed") return true;  // drawers that are drawn in from the side
      if (p !== e && style.overflowX !== "visible") return true;
    }
    return false;
  };
  if (document.documentElement.scrollWidth > width)
    flaws.add(`the page is ${document.documentElement.scrollWidth} pixels wide`);
  for (const e of document.body.querySelectorAll("*")) {
    const box = e.getBoundingClientRect();
    if (box.width && box.right > width + 1 && box.left < width && e.checkVisibility() && !clipped(e))
      flaws.add(`${named(e)} reaches ${Math.round(box.right)} pixels far`);
  }

  // A table of many columns may scroll within itself; one of names and texts has to be readable at once.
  for (const table of document.querySelectorAll("table")) {
    const columns = Math.max(0, ...[...table.rows].map((row) => row.cells.length));
    if (columns === 2 && table.checkVisibility() && table.getBoundingClientRect().width > width)
      flaws.add(`a table of 2 columns is ${Math.round(table.getBoundingClientRect().width)} pixels wide`);
  }

  // --- headings get smaller, and texts of drawings stay in their boxes ---
  const sizes = ["h1", "h2", "h3"].map((h) => document.querySelector(h)).filter(Boolean)
    .map((e) => parseFloat(getComputedStyle(e).fontSize));
  if (sizes.some((size, k) => k && size > sizes[k - 1])) flaws.add(`headings are of sizes ${sizes}`);
  for (const text of document.querySelectorAll("svg text")) {
    text.scrollIntoView({ block: "nearest", inline: "nearest" });
    const box = text.getBoundingClientRect();
    const at = document.elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    const around = at.find((e) => e.localName === "rect")?.getBoundingClientRect();
    if (around && (box.left < around.left || box.right > around.right))
      flaws.add(`${JSON.stringify(text.textContent)} is ${box.width.toFixed(1)} pixels wide in ` +
        `${around.width.toFixed(1)} pixels`);
  }

  // --- texts stand out from what is behind them ---
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {  // whatever way of writing colours it is in
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (front, back) => {
    const a = front[3];
    return [0, 1, 2].map((k) => front[k] * a + back[k] * (1 - a)).concat(1);
  };
  const shape = (e) => e instanceof SVGGeometryElement;
  const painted = (e) => {
    const style = getComputedStyle(e);
    if (!shape(e)) return style.backgroundColor;
    return style.fill === "none" ? "transparent" : style.fill;
  };
  const back = (e) => {
    const layers = [];
    if (e instanceof SVGElement) {  // shapes lie behind each other without being each other's parents
      e.scrollIntoView({ block: "nearest", inline: "nearest" });  // what is out of sight is at no point
      const box = e.getBoundingClientRect();
      for (const other of document.elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2))
        if (shape(other)) layers.push(other);
    }
    for (let p = e; p; p = p.parentElement) {
      if (getComputedStyle(p).backgroundImage !== "none") return null;
      layers.push(p);
    }
    const page = getComputedStyle(document.documentElement).colorScheme.includes("dark");
    const dark = page && matchMedia("(prefers-color-scheme: dark)").matches;
    let found = dark ? [18, 18, 18, 1] : [255, 255, 255, 1];
    for (const layer of layers.reverse()) {
      const colour = rgba(painted(layer));
      colour[3] *= shape(layer) ? Number(getComputedStyle(layer).fillOpacity) * opacity(layer) : 1;
      found = over(colour, found);
    }
    return found;
  };
  const luminance = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => {
      v /= 255;
      return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    const text = node.data.trim();
    if (!text || e.closest("script, style, noscript, title, [aria-hidden='true']")) continue;
    if (!e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const behind = back(e);
    if (!behind) continue;
    const style = getComputedStyle(e);
    const colour = rgba(e instanceof SVGElement ? style.fill : style.color);
    colour[3] *= opacity(e);
    const [a, b] = [luminance(over(colour, behind)), luminance(behind)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < least)
      flaws.add(`${named(e)} ${JSON.stringify(text.slice(0, 30))} has a contrast of ${ratio.toFixed(2)}: ` +
        `${colour.map((v) => +v.toFixed(2))} on ${behind.map(Math.round).slice(0, 3)}`);
  }
  return [...flaws];
}
