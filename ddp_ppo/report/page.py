"""A self-contained HTML page: style and script inline, nothing fetched, light and dark, fit for a phone. Torch-free.

The script shows the values under the cursor in all charts of one x axis at once; without it they show the last ones.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from ddp_ppo.report.charts import Chart, chart_html

_MEDIA_TYPES = {".mp4": "video/mp4", ".gif": "image/gif", ".png": "image/png"}
_MANY_ROWS = 20  # of a table that scrolls by itself

_STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --card: #fff; --ink: #1c2024; --soft: #626970; --line: #e3e4e6;
  --bad: #c62a2f; --c0: #1f6feb; --c1: #d9691c; --c2: #16876b; --c3: #8e4ec6; --c4: #c4325f;
  --c5: #857300; --c6: #0588a8; --c7: #6b7078; }
@media (prefers-color-scheme: dark) { :root { --page: #121416; --card: #1a1d20; --ink: #e8eaed; --soft: #9ba1a8;
  --line: #2e3338; --bad: #ff7b7f; --c0: #6cb0ff; --c1: #ff9f5a; --c2: #4ccfa7; --c3: #c79bf2;
  --c4: #ff7fa5; --c5: #e0c84b; --c6: #4cc8e8; --c7: #a2a9b1; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 20px 16px 48px; max-width: 1400px; background: var(--page); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { margin: 0; font-size: 24px; overflow-wrap: anywhere; }
h2 { margin: 32px 0 10px; font-size: 17px; }
p { margin: 4px 0; }
a { color: var(--c0); }
.soft, .note { color: var(--soft); }
.note { font-size: 12.5px; }
.tiles { display: grid; gap: 10px; margin-top: 16px; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); }
.tiles div, .card, .chart { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.tiles div { padding: 10px 12px; }
.tiles b { display: block; font-size: 21px; font-weight: 600; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--soft); font-size: 13px; }
.charts { display: grid; gap: 10px; margin-bottom: 10px;
  grid-template-columns: repeat(auto-fit, minmax(min(340px, 100%), 1fr)); }
.chart { margin: 0; padding: 10px 10px 6px; min-width: 0; container-type: inline-size; }
.chart svg { display: block; width: 100%; overflow: hidden; touch-action: pan-y; }
figcaption { display: flex; justify-content: space-between; gap: 8px; }
figcaption b { font-weight: 600; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
output, .legend { color: var(--soft); font-size: 13px; font-variant-numeric: tabular-nums; }
output { white-space: nowrap; }
.legend { display: flex; flex-wrap: wrap; gap: 0 14px; margin: 0 0 4px; min-height: 19px; }
.legend b { color: var(--ink); font-weight: 500; }
.legend i { display: inline-block; width: 10px; height: 10px; margin-right: 5px; border-radius: 3px;
  background: var(--s); }
svg text { fill: var(--soft); font-size: 10.5px; }
@container (min-width: 520px) { svg text { font-size: 8px; } }
polyline, line { vector-effect: non-scaling-stroke; }
.grid { stroke: var(--line); }
.mark { stroke: var(--soft); stroke-dasharray: 5 4; }
.moment { stroke: var(--bad); opacity: .45; }
.cursor { stroke: var(--ink); opacity: .5; visibility: hidden; }
polyline { fill: none; stroke: var(--s); stroke-width: 1.6; stroke-linejoin: round; }
circle { fill: var(--s); }
.band { fill: var(--s); opacity: .18; }
.area { fill: var(--s); opacity: .75; }
.s0 { --s: var(--c0); } .s1 { --s: var(--c1); } .s2 { --s: var(--c2); } .s3 { --s: var(--c3); }
.s4 { --s: var(--c4); } .s5 { --s: var(--c5); } .s6 { --s: var(--c6); } .s7 { --s: var(--c7); }
.card { overflow: auto; width: fit-content; max-width: 100%; margin-bottom: 10px; }
.long { max-height: 560px; }
table { border-collapse: collapse; font-size: 13.5px; }
th, td { padding: 5px 12px; border-top: 1px solid var(--line); text-align: left; vertical-align: top;
  font-variant-numeric: tabular-nums; }
tbody:first-child tr:first-child > *, thead tr > * { border-top: 0; }
th { font-weight: 500; color: var(--soft); white-space: nowrap; }
thead th { position: sticky; top: 0; background: var(--card); }
td.number, th.number { text-align: right; white-space: nowrap; }
td { overflow-wrap: break-word; }
td:last-child:not(.number) { overflow-wrap: anywhere; min-width: 10em; white-space: pre-line; }
td:first-child { white-space: nowrap; }
code { font: 12.5px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
summary { cursor: pointer; margin: 12px 0 8px; color: var(--soft); }
video, img { max-width: 100%; border-radius: 8px; }
@media (max-width: 480px) { body { padding: 14px 10px 32px; } table { font-size: 12px; } th, td { padding: 5px 4px; }
  code { font-size: 11.5px; overflow-wrap: anywhere; } thead th, thead th.number, td.number { white-space: normal; }
  td:first-child { white-space: normal; } td + td:not(.number), td:last-child:not(.number) { min-width: 4.5em; } }
"""

_SCRIPT = """
const format = value => {
  const size = Math.abs(value);
  if (size >= 1e5 || size === 0) return Math.round(value).toLocaleString("en-US");
  if (size < 1e-4) return value.toExponential(3);
  return value.toLocaleString("en-US", size < 1e3 ? {maximumSignificantDigits: 4} : {maximumFractionDigits: 1});
};
const nearest = (xs, x) => {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] > x) high = middle; else low = middle;
  }
  return x - xs[low] <= xs[high] - x ? low : high;
};
const charts = [...document.querySelectorAll(".chart")].map(figure => {
  const {axis: [low, high, start, end], series} = JSON.parse(figure.querySelector("script").textContent);
  const cells = [...figure.querySelectorAll(".legend b")], last = cells.map(cell => cell.textContent);
  const cursor = figure.querySelector(".cursor"), output = figure.querySelector("output");
  const shown = series.filter(([xs]) => xs.length);
  return {
    figure, unit: figure.dataset.x,
    at(x) {  // null: no cursor
      const inside = x !== null && low <= x && x <= high;
      const at = inside ? start + (x - low) / (high - low) * (end - start) : 0;
      cursor.style.visibility = inside ? "visible" : "hidden";
      cursor.setAttribute("x1", at);
      cursor.setAttribute("x2", at);
      output.textContent = inside ? `at ${format(shown[0][0][nearest(shown[0][0], x)])}` : "";
      shown.forEach(([xs, ys], i) => { cells[i].textContent = inside ? format(ys[nearest(xs, x)]) : last[i]; });
    },
    value(event) {
      const box = figure.querySelector("svg").getBoundingClientRect();
      const pixel = (event.clientX - box.left) / box.width * 420;
      return Math.min(high, Math.max(low, low + (pixel - start) / (end - start) * (high - low)));
    },
  };
});
for (const chart of charts) {
  const show = x => charts.filter(other => other.unit === chart.unit).forEach(other => other.at(x));
  const svg = chart.figure.querySelector("svg");
  for (const kind of ["pointermove", "pointerdown"]) svg.addEventListener(kind, event => show(chart.value(event)));
  svg.addEventListener("pointerleave", event => event.pointerType === "touch" || show(null));
}
"""


class Html(str):
    """Text that is HTML already; all other text is escaped."""


def page(title: str, parts: Iterable[str]) -> str:
    """The whole document around parts that are HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + f"\n<script>{_SCRIPT}</script></body></html>\n"
    )


def heading(text: str, note: str = "") -> str:
    """The title of a section, and a line about it."""
    return f"<h2>{escape(text)}</h2>" + (f'<p class="note">{escape(note)}</p>' if note else "")


def tiles(figures: Iterable[tuple[str, str]]) -> str:
    """Key figures as (name, value)."""
    cells = (f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in figures)
    return f'<div class="tiles">{"".join(cells)}</div>'


def charts_html(charts: Iterable[Chart]) -> str:
    """A grid of charts; those without a point are left out."""
    return f'<div class="charts">{"".join(map(chart_html, charts))}</div>'


def table(header: Sequence[str], rows: Iterable[Sequence[object]], *, num_names: int = 1) -> str:
    """A table whose first `num_names` columns are left-aligned names, the others figures.

    Args:
        header: one name a column; empty for a table of names and values.
        rows: cells; `Html` goes in as it is. Without a row there is no table.
    """
    kinds = [""] * num_names + [' class="number"'] * (len(header) - num_names) if header else ["", ""]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, header, strict=False))
    tag = "td" if header else "th"
    lines = []
    for first, *others in rows:
        cells = "".join(f"<td{kind}>{_cell(value)}</td>" for kind, value in zip(kinds[1:], others, strict=True))
        lines.append(f"<tr><{tag}>{_cell(first)}</{tag}>{cells}</tr>")
    top = f"<thead><tr>{head}</tr></thead>" if header else ""
    kind = "card long" if len(lines) > _MANY_ROWS else "card"
    return f'<div class="{kind}"><table>{top}<tbody>{"".join(lines)}</tbody></table></div>' if lines else ""


def details(summary: str, inner: str) -> str:
    """What opens on a click."""
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>"


def media(path: Path, url: str = "") -> str:
    """A video or picture: a part of the page, or where `url` finds it from the page."""
    kind = _MEDIA_TYPES[path.suffix]
    source = escape(url) or f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    if kind.startswith("video"):
        return f'<video src="{source}" controls loop muted autoplay playsinline></video>'
    return f'<img src="{source}" alt="{escape(path.stem)}">'


def link(path: Path, home: Path) -> str:
    """What is too large to be a part of the page, as a line; `home` is the page's folder."""
    url = escape(os.path.relpath(path, home))
    return f'<p class="note">Beside this page: <a href="{url}">{url}</a>, {path.stat().st_size / 1e6:.1f} MB.</p>'


def _cell(value: object) -> str:
    return value if isinstance(value, Html) else escape(str(value))
