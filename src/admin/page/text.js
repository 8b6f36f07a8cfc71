// Numbers and times as text, and the elements of the document.

const $ = id => document.getElementById(id);

const grouped = n => Math.round(n).toLocaleString('en');
const plural = (n, one, many = `${one}s`) => `${grouped(n)} ${n === 1 ? one : many}`;

// A number per second.
function rate(n) {
  if (n === 0) return '0';
  if (n < 0.05) return '<0.1';
  return n < 9.95 ? n.toFixed(1) : grouped(n);
}

// A number of bytes.
function size(n) {
  return n < 1e6 ? `${grouped(Math.ceil(n / 1e3))} kB` : `${grouped(Math.ceil(n / 1e6))} MB`;
}

function percent(part) {
  if (part === 0) return '0 %';
  if (part < 0.001) return '<0.1 %';
  return part < 0.0995 ? `${(part * 100).toFixed(1)} %` : `${Math.round(part * 100)} %`;
}

// A duration with two or three digits.
function time(seconds) {
  if (seconds === 0) return '0 ms';
  if (seconds < 0.00095) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 0.00995) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${(seconds * 1e3).toFixed(0)} ms`;
  return seconds < 9.95 ? `${seconds.toFixed(1)} s` : `${grouped(seconds)} s`;
}

// A duration in one whole unit.
function span(seconds) {
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 5940) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

const clock = (ms, withSeconds) =>
  new Date(ms).toLocaleTimeString('en-GB', withSeconds ? {} : {hour: '2-digit', minute: '2-digit'});

// The roles of a table are stated, because a small screen shows its rows as blocks.
const ROLES = {table: 'table', thead: 'rowgroup', tbody: 'rowgroup', tr: 'row', th: 'columnheader', td: 'cell'};
const DRAWN = new Set(['svg', 'path', 'line', 'text', 'g', 'rect']);

// Makes an element. Text becomes text nodes only, so that no name can be markup.
function make(tag, attributes = {}, ...children) {
  const e = DRAWN.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  if (ROLES[tag]) e.setAttribute('role', ROLES[tag]);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// These write only what changed.
function show(e, text) {
  if (e.textContent !== text) e.textContent = text;
}
function set(e, name, value) {
  if (e.getAttribute(name) !== value) e.setAttribute(name, value);
}

function tableOf(titles, lines) {
  const cell = (tag, text, i) => make(tag, {class: i ? '' : 'l', ...(tag === 'th' ? {scope: 'col'} : {})}, text);
  return make(
    'table',
    {},
    make('thead', {}, make('tr', {}, ...titles.map((title, i) => cell('th', title, i)))),
    make('tbody', {}, ...lines.map(line => make('tr', {}, ...line.map((text, i) => cell('td', text, i)))))
  );
}
