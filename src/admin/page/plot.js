// Plots with axes. One cursor goes through all of them: by pointer, or by the arrow keys.

const plots = new Set();
let cursor = null; // a second

// What the plots show: from the first point, at least half a minute, in whole columns.
function range() {
  const begin = past.all.begin(),
    end = Math.max(second, begin + 29) + 1;
  const step = end - begin > 300 ? 5 : end - begin > 120 ? 2 : 1;
  return {from: Math.floor(begin / step) * step, to: second, end: Math.ceil(end / step) * step, step, begin};
}

// A round number that is not below `n`.
function roundUp(n) {
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 4, 6, 8, 10].map(digit => digit * power).find(round => round >= n * 0.999);
}

const LEFT = 52,
  FOOT = 18,
  TOP = 10;

function moveCursor(to, r) {
  const last = Math.floor(r.to / r.step) * r.step;
  cursor = to === null ? null : Math.min(Math.max(Math.floor(to / r.step) * r.step, r.from), last);
  for (const p of plots) p.read();
}

// A plot of stacked areas or of lines. A series has a name, the fields `of` that it adds up, a colour or a hatch, and
// `highest` if it is no rate. `big()` is the number in the title.
class Plot {
  constructor(title, series, {stacked = false, format = rate, ring, big = null}) {
    Object.assign(this, {
      title,
      series,
      stacked,
      format,
      ring,
      big,
      width: 0,
      height: 0,
      range: null,
      columns: [],
      axis: ''
    });
    this.lead = make('b');
    this.caption = make('span', {}, title);
    this.svg = make('svg', {class: 'plot', tabindex: 0, role: 'img', 'aria-label': title});
    this.axes = make('g');
    this.line = make('line', {class: 'cursor', y1: 0, visibility: 'hidden'});
    this.paths = series.map(one =>
      make('path', {
        class: `${stacked ? 'area' : 'line'} ${one.dash ? 'dash' : ''}`,
        [stacked ? 'fill' : 'stroke']: one.hatch ? 'url(#hatch)' : `var(--${one.colour})`
      })
    );
    this.svg.append(this.axes, ...this.paths, this.line);
    this.values = series.map(() => make('span'));
    const legend = make('ul', {class: 'legend'}, ...series.map((one, i) => this.legendOf(one, this.values[i])));
    this.figure = make('figure', {}, make('figcaption', {}, this.caption, this.lead), this.svg, legend);
    this.listen();
    plots.add(this);
    this.svg.plot = this;
    sizes.observe(this.svg);
  }

  legendOf(one, value) {
    const key = make('span', {
      class: `key ${one.hatch ? 'hatch' : ''} ${this.stacked ? '' : 'line'} ${one.dash ? 'dash' : ''}`
    });
    if (!one.hatch) key.style[this.stacked ? 'background' : 'borderColor'] = `var(--${one.colour})`;
    return make('li', {}, key, `${one.name} `, value);
  }

  drop() {
    plots.delete(this);
    sizes.unobserve(this.svg);
  }

  resize() {
    ({width: this.width, height: this.height} = this.svg.getBoundingClientRect());
    // On paper the plot has another size, without an event.
    set(this.svg, 'viewBox', `0 0 ${this.width} ${this.height}`);
  }

  x(s) {
    return LEFT + ((s - this.range.from) / (this.range.end - this.range.from)) * (this.width - LEFT);
  }
  y(n, top) {
    return TOP + (this.height - FOOT - TOP) * (1 - n / top);
  }
  totalOf(values) {
    return this.stacked ? values.reduce((a, b) => a + b, 0) : Math.max(...values);
  }
  textOf(column) {
    return column ? this.series.map((one, i) => `${one.name} ${this.format(column.values[i])}`).join(', ') : 'no data';
  }

  draw() {
    if (!this.width) this.resize();
    if (!this.width || past.all.last < 0) return;
    this.range = range();
    this.columns = this.ring().columns(this.range, this.series);
    const highest = Math.max(0, ...this.columns.map(c => this.totalOf(c.values)));
    const top = roundUp(highest > (this.format === grouped ? 2 : 0) ? highest : 2); // half of the top is a tick
    this.drawAxes(top);
    this.drawSeries(top);
    set(
      this.svg,
      'aria-label',
      `${this.title} since ${clockAt(this.range.begin)}: now ${this.textOf(this.columns.at(-1))}; ` +
        `highest ${this.format(highest)}. The arrow keys read values.`
    );
    this.read();
  }

  drawAxes(top) {
    const {from, end} = this.range,
      {width, height} = this,
      bottom = height - FOOT;
    const lines = [0, top / 2, top].map(n => ({
      d: `M${LEFT} ${this.y(n, top).toFixed(1)}H${width}`,
      x: LEFT - 5,
      y: this.y(n, top) + 4,
      text: this.format(n),
      anchor: 'end'
    }));
    const every =
      [10, 30, 60, 120, 300, 600].find(n => (n / (end - from)) * (width - LEFT) > (n < 60 ? 62 : 46)) ?? 600;
    const zone = new Date(base).getTimezoneOffset() * 60;
    const first = Math.ceil((base / 1000 + from - zone) / every) * every - base / 1000 + zone;
    for (let s = first; s <= end; s += every) {
      const x = this.x(s);
      if (x > LEFT + 12 && x < width - (every < 60 ? 28 : 18))
        lines.push({
          d: `M${x.toFixed(1)} ${bottom}v4`,
          x,
          y: height - 3,
          text: clockAt(s, every < 60),
          anchor: 'middle'
        });
    }
    const now = JSON.stringify(lines);
    if (now === this.axis) return;
    this.axis = now;
    this.axes.replaceChildren(
      ...lines.flatMap(({d, x, y, text, anchor}) => [
        make('path', {class: 'grid', d}),
        make('text', {x, y, 'text-anchor': anchor}, text)
      ])
    );
  }

  drawSeries(top) {
    const floor = this.columns.map(() => 0),
      end = c => Math.min(this.x(c.at + this.range.step), this.width).toFixed(1);
    this.paths.forEach((path, i) => {
      let upper = '',
        lower = '',
        any = false;
      this.columns.forEach((c, k) => {
        const below = floor[k],
          n = this.stacked ? below + c.values[i] : c.values[i],
          x = this.x(c.at).toFixed(1);
        any ||= c.values[i] > 0;
        upper += `${upper ? 'L' : 'M'}${x} ${this.y(n, top).toFixed(1)}H${end(c)}`;
        if (!this.stacked) return;
        lower = `L${end(c)} ${this.y(below, top).toFixed(1)}H${x}${lower}`;
        floor[k] = n;
      });
      set(path, 'd', !any ? '' : this.stacked ? `${upper}${lower}Z` : upper);
    });
  }

  // Shows the numbers at the cursor, or of now.
  read() {
    const r = this.range;
    if (!r) return;
    const column =
      cursor === null ? this.columns.at(-1) : this.columns.find(c => c.at <= cursor && cursor < c.at + r.step);
    set(this.line, 'visibility', cursor === null ? 'hidden' : 'visible');
    if (cursor !== null) {
      const x = this.x(cursor + r.step / 2).toFixed(1);
      set(this.line, 'x1', x);
      set(this.line, 'x2', x);
      set(this.line, 'y2', String(this.height - FOOT));
    }
    show(this.caption, cursor === null ? this.title : `${this.title}, ${clockAt(cursor, true)}`);
    this.series.forEach((one, i) => {
      const now = cursor === null && !one.highest ? this.ring().rate(one.of) : column?.values[i];
      const unknown = now === undefined || (now === 0 && this.format === time); // no duration in this second
      show(this.values[i], unknown ? '–' : this.format(now));
    });
    show(this.lead, cursor === null && this.big ? this.big() : '');
  }

  listen() {
    this.svg.addEventListener('pointermove', event => {
      const box = this.svg.getBoundingClientRect(),
        r = this.range;
      if (r) moveCursor(r.from + ((event.clientX - box.left - LEFT) / (box.width - LEFT)) * (r.end - r.from), r);
    });
    for (const leaves of ['pointerleave', 'blur'])
      this.svg.addEventListener(leaves, () => {
        if (this.range) moveCursor(null, this.range);
      });
    this.svg.addEventListener('keydown', event => {
      const r = this.range;
      if (!r) return;
      const to = {
        ArrowLeft: (cursor ?? r.to + 1) - r.step,
        ArrowRight: (cursor ?? r.to) + r.step,
        Home: r.begin,
        End: r.to,
        Escape: null
      }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      moveCursor(to, r);
      if (cursor !== null)
        show($('say'), `${clockAt(cursor, true)}: ${this.textOf(this.columns.find(c => c.at === cursor))}`);
    });
  }
}
const sizes = new ResizeObserver(all => {
  for (const {target} of all) {
    target.plot.resize();
    target.plot.draw();
  }
});

// A plot of the size of a word: good numbers, and bad ones above them, of which a single one is visible.
class Spark {
  constructor() {
    this.good = make('path', {fill: 'var(--waited)'});
    this.bad = make('path', {fill: 'var(--rejected)'});
    this.svg = make(
      'svg',
      {class: 'spark', role: 'img', viewBox: '0 0 60 18', preserveAspectRatio: 'none', 'aria-label': 'no requests'},
      this.good,
      this.bad
    );
  }

  draw(ring, good, bad, what) {
    const begin = past.all.begin(),
      step = Math.max(1, Math.ceil((second - begin + 1) / 60));
    const from = Math.max(Math.floor(begin / step), Math.floor(second / step) - 59) * step;
    const all = ring.columns({from, to: second, step}, [{of: good}, {of: bad}]);
    const highest = Math.max(0, ...all.map(c => c.values[0] + c.values[1])),
      top = highest || 1;
    let lower = '',
      upper = '';
    for (const c of all) {
      const [n, m] = c.values,
        x = (c.at - from) / step;
      const over = m ? Math.max(2.5, (17 * m) / top) : 0,
        y = Math.max(over, 18 - (17 * n) / top);
      if (n) lower += `M${x} 18V${y.toFixed(1)}h1V18Z`;
      if (m) upper += `M${x} ${y.toFixed(1)}v${-over.toFixed(1)}h1v${over.toFixed(1)}Z`;
    }
    set(this.good, 'd', lower);
    set(this.bad, 'd', upper);
    set(this.svg, 'aria-label', `${what} since ${clockAt(begin)}: highest ${rate(highest)} per second`);
  }
}

// A bar with a number. `use` is a part from 0 to 1; undefined if it is not known.
class Meter {
  constructor() {
    this.fill = make('i');
    this.box = make('span', {class: 'meter', 'aria-hidden': 'true'}, this.fill);
    this.text = make('span');
    this.parts = [this.box, this.text];
  }

  update(use, text) {
    this.box.hidden = use === undefined;
    show(this.text, text);
    if (use === undefined) return;
    this.fill.style.width = `${Math.round(Math.min(1, use) * 100)}%`;
    set(this.box, 'class', `meter ${use >= 0.995 ? 'full' : use >= 0.8 ? 'high' : ''}`);
  }
}
