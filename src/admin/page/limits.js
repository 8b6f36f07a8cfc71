// The limits: a table, ordered by what hurts, whose rows open.

// The states of a limit, the worst last: a shape, a word, and a colour.
const STATES = {
  idle: ['○', 'idle', 'soft'],
  ok: ['●', 'ok', 'good'],
  near: ['◇', 'near', 'warn'],
  lately: ['△', 'rejected', 'soft'],
  waiting: ['◆', 'waiting', 'warn'],
  rejecting: ['▲', 'rejecting', 'bad']
};
const ORDER = Object.keys(STATES);

const COLUMNS = [
  ['state', 'State', 'l', 124],
  ['name', 'Limit and rule', 'l'],
  ['whom', 'For', 'l w3', 190],
  ['use', 'In use', 'l', 124],
  [null, 'Ten minutes', 'l', 120],
  ['granted', 'Granted/s', '', 84],
  ['waiting', 'Waiting', '', 72],
  ['p99', 'p99 wait', '', 80],
  ['rejected', 'Rejected/s', '', 90],
  ['lately', 'In 10 min', 'w3', 84]
];

const rows = new Map(); // by the id of the limit
let sort = {by: 'state', down: true};
let order = ''; // the ids as the table shows them

function whomOf(limit) {
  const keys = limit.keys === undefined ? '' : ` (${grouped(limit.keys)})`;
  const whom = limit.key === 'total' ? 'all' : `each ${limit.key}${keys}`;
  const more = limit.routes_total > limit.routes.length ? ', …' : '';
  return limit.routes.length ? `${whom} on ${limit.routes.join(', ')}${more}` : whom;
}

// The part of the table of keys or of its memory that is in use, whichever is greater; 0 without a key.
const fullOfKeys = l => Math.max(l.keys / l.max_keys || 0, l.memory / l.max_memory || 0);
const NEARLY_FULL = 0.95; // as for the warning of the proxy

function stateOf(f) {
  if (f.rejected) return 'rejecting';
  if (f.waiting) return 'waiting';
  if (f.lately) return 'lately';
  if (!f.asked) return 'idle';
  return f.use >= 0.8 || f.full >= NEARLY_FULL ? 'near' : 'ok';
}

// The figures in the row of a limit.
function figuresOf(limit) {
  const ring = ringOf(past.limits, limit.id, LIMIT_WIDTH);
  const f = {
    ring,
    name: nameOf(limit),
    whom: whomOf(limit),
    use: limit.use ?? -1,
    full: fullOfKeys(limit),
    granted: ring.rate(GRANTED),
    waiting: limit.waiting,
    p99: limit.last_minute.p99_wait,
    rejected: ring.rate(REJECTED),
    lately: ring.sum(REJECTED)
  };
  f.asked = f.granted || f.rejected || f.waiting || ring.sum([...GRANTED, ...REJECTED, DISCONNECTED]);
  f.is = stateOf(f);
  f.state = limit.dry_run ? Math.min(ORDER.indexOf(f.is), 1.5) : ORDER.indexOf(f.is);
  return f;
}

function useText(limit) {
  if (limit.seats && limit.capacity !== undefined) return `${grouped(limit.in_use)}/${grouped(limit.capacity)}`;
  if (limit.use !== undefined) return percent(limit.use);
  if (fullOfKeys(limit) >= NEARLY_FULL) return `keys ${percent(fullOfKeys(limit))}`;
  return limit.seats ? grouped(limit.in_use) : '–'; // each key has its own
}

function keysText({keys, max_keys, memory, max_memory, evicted}) {
  if (keys === undefined) return '';
  const part = (n, most, format) => `${format(n)} of ${format(most)} (${percent(n / most)})`;
  const bytes = memory === undefined ? '' : `, which take ${part(memory, max_memory, size)} of memory`;
  const gone = evicted ? `; ${grouped(evicted)} evicted` : '';
  return ` Keys: ${part(keys, max_keys, grouped)}${bytes}${gone}.`;
}

class LimitRow {
  constructor(limit) {
    Object.assign(this, {
      limit,
      figures: null,
      detail: null,
      icon: make('span', {'aria-hidden': 'true'}),
      word: make('span'),
      rule: make('code', {class: 'soft', 'data-is': 'rule'}),
      meter: new Meter(),
      spark: new Spark()
    });
    const id = `limit-${limit.id}`;
    this.name = make('button', {class: 'plain', 'aria-expanded': 'false', 'aria-controls': id}, nameOf(limit));
    const cell = (cls, label, ...what) => make('td', {class: cls, ...(label ? {'data-label': label} : {})}, ...what);
    this.cells = {
      state: cell('l p', '', this.icon, ' ', this.word),
      name: cell('l p name', '', this.name, ' ', this.rule),
      whom: cell('l w3'),
      use: cell('l p meters', '', ...this.meter.parts),
      spark: cell('l p', '', this.spark.svg),
      granted: cell(''),
      waiting: cell(''),
      p99: cell(''),
      rejected: cell('p', ' rej/s'),
      lately: cell('w3')
    };
    for (const [is, one] of Object.entries(this.cells)) one.dataset.is = is;
    this.row = make('tr', {class: 'row'}, ...Object.values(this.cells));
    this.body = make('tbody', {'data-limit': limit.name}, this.row);
    this.id = id;
    this.listen();
  }

  update(limit) {
    const f = (this.figures = figuresOf(limit));
    const [shape, word, colour] = STATES[f.is];
    this.limit = limit;
    set(this.row, 'class', `row ${f.is === 'idle' ? 'idle' : ''}`);
    show(this.icon, shape);
    set(this.icon, 'class', colour);
    show(this.word, limit.dry_run ? (f.is === 'rejecting' ? 'would reject' : 'dry run') : word);
    show(this.rule, limit.rule);
    set(this.cells.name, 'title', `${f.name}: ${limit.rule}`);
    show(this.cells.whom, f.whom);
    set(this.cells.whom, 'title', f.whom);
    this.meter.update(limit.use, useText(limit));
    if (f.asked) this.spark.draw(f.ring, GRANTED, REJECTED, `requests of ${f.name}`);
    const texts = {
      granted: rate(f.granted),
      waiting: grouped(f.waiting),
      p99: f.p99 ? time(f.p99) : '–',
      rejected: rate(f.rejected),
      lately: grouped(f.lately)
    };
    for (const [name, text] of Object.entries(texts)) {
      const shown = f.asked ? text : '–',
        own = {rejected: 'p ', lately: 'w3 '}[name] ?? '';
      show(this.cells[name], shown);
      set(
        this.cells[name],
        'class',
        own + (name === 'rejected' && f.rejected ? 'bad' : shown === '–' || shown === '0' ? 'soft' : '')
      );
    }
    this.detail?.update(limit);
  }

  open(on) {
    if (on === Boolean(this.detail)) return;
    set(this.name, 'aria-expanded', String(on));
    if (on) {
      this.detail = new LimitDetail(this.limit, this.id);
      this.body.append(this.detail.row);
      this.detail.update(this.limit);
    } else {
      this.detail.drop();
      this.detail.row.remove();
      this.detail = null;
    }
    // The address names the open rows, so that a reloaded page opens them again.
    const open = [...rows.values()].filter(one => one.detail).map(one => encodeURIComponent(one.limit.name));
    history.replaceState(null, '', open.length ? `#${open.join(',')}` : location.pathname + location.search);
  }

  listen() {
    this.row.addEventListener('click', event => {
      // A selection by the mouse ends with a click. A key also clicks, while the text of a field may be selected.
      if (event.detail && String(getSelection())) return;
      this.open(!this.detail);
      if (event.target !== this.name) this.name.focus({preventScroll: true});
    });
    this.body.addEventListener('keydown', event => {
      if (event.key === 'Escape' && this.detail) {
        this.open(false);
        this.name.focus();
      }
      if (event.target !== this.name || !['ArrowDown', 'ArrowUp'].includes(event.key)) return;
      const all = [...$('limits').querySelectorAll('tbody:not([hidden]) td.name button')];
      const to = all[all.indexOf(this.name) + (event.key === 'ArrowDown' ? 1 : -1)];
      if (!to) return;
      event.preventDefault();
      to.focus();
    });
  }
}

function openRow(id) {
  const row = rows.get(id);
  if (!row) return;
  row.body.hidden = false;
  row.open(true);
  row.name.focus();
  row.body.scrollIntoView({block: 'nearest'});
}

// ---- An open row

// The number of columns that are shown, which depends on the width of the window.
let columnsShown = 0;
function shownColumns() {
  columnsShown ||= [...$('limits').tHead.rows[0].cells].filter(cell => cell.offsetWidth).length || 1;
  return columnsShown;
}
addEventListener('resize', () => {
  columnsShown = 0;
});

class LimitDetail {
  constructor(limit, id) {
    const ring = () => ringOf(past.limits, limit.id, LIMIT_WIDTH),
      highest = true;
    this.plots = [
      new Plot(
        'Requests/s',
        [
          {name: 'granted immediately', of: [LIMIT.atOnce], colour: 'served'},
          {name: 'granted after a wait', of: [LIMIT.later], colour: 'waited'},
          {name: limit.dry_run ? 'would be rejected' : 'rejected', of: REJECTED, hatch: true},
          {name: 'client disconnected', of: [DISCONNECTED], colour: 'gone'}
        ],
        {stacked: true, ring}
      ),
      new Plot('p99 wait', [{name: 'p99 wait', of: [LIMIT.p99], highest, unit: 1e-6, colour: 'served'}], {
        ring,
        format: time
      }),
      new Plot(
        limit.seats ? 'In use and waiting' : 'Waiting',
        [
          ...(limit.seats ? [{name: 'in use', of: [LIMIT.inUse], highest, colour: 'served'}] : []),
          {name: 'waiting', of: [LIMIT.waiting], highest, colour: 'rejected', dash: true}
        ],
        {ring, format: grouped}
      )
    ];
    this.reasons = make('div', {'data-is': 'reasons'});
    this.clients = make('div', {'data-is': 'top_rejected'});
    this.waits = make('div', {'data-is': 'waits'});
    this.facts = make('p', {class: 'soft'});
    const pane = (title, ...what) => make('div', {class: 'pane'}, make('h3', {}, title), ...what);
    this.change = limit.writable ? new Change(limit) : null;
    const change = this.change
      ? pane('Change the rule', ...this.change.parts)
      : pane(
          'Change the rule',
          make(
            'p',
            {class: 'soft'},
            'The configuration does not allow it. See ',
            make('code', {}, 'write'),
            ' in ',
            make('code', {}, '[admin]'),
            '.'
          )
        );
    const panes = make(
      'div',
      {class: 'panes', role: 'group', 'aria-label': `details of ${nameOf(limit)}`},
      ...this.plots.map(p => p.figure),
      change,
      pane('Rejections, ten minutes', this.reasons, this.clients),
      pane('Waits, ten minutes', this.waits),
      this.facts
    );
    this.row = make('tr', {class: 'detail', id}, make('td', {}, panes));
    this.shown = '';
  }

  drop() {
    for (const p of this.plots) p.drop();
  }

  update(limit) {
    set(this.row.cells[0], 'colspan', String(shownColumns()));
    for (const p of this.plots) p.draw();
    this.change?.update(limit);
    const ring = ringOf(past.limits, limit.id, LIMIT_WIDTH);
    const reasons = Object.keys(REASONS)
      .map((name, i) => [name, ring.sum([LIMIT.reasons + i])])
      .filter(one => one[1]);
    const keys = keysText(limit);
    const now = JSON.stringify([reasons, limit.top_rejected, limit.recent_waits, limit.queue, whomOf(limit), keys]);
    if (now === this.shown) return;
    this.shown = now;
    const lines = reasons.map(([name, n]) => [REASONS[name], grouped(n)]);
    this.reasons.replaceChildren(
      lines.length ? tableOf(['why', 'requests'], lines) : make('p', {class: 'soft'}, 'No request was rejected.')
    );
    const all = Math.max(1, ring.sum(REJECTED));
    const clients = limit.top_rejected.map(one => [
      one.client,
      (one.error ? 'about ' : '') + grouped(one.rejected),
      percent(Math.min(1, one.rejected / all))
    ]);
    this.clients.replaceChildren(...(clients.length ? [tableOf(['client', 'rejected', 'share'], clients)] : []));
    this.waits.replaceChildren(...this.waitsOf(limit.recent_waits));
    const store = limit.store ? ` Store: ${limit.store.mode}.` : '';
    const further = limit.when_full === 'share' ? 'share one limiter' : 'are rejected';
    const warning = make('span', {class: 'warn'}, ` While no tracked key makes place, requests with further keys ${further}.`);
    this.facts.replaceChildren(
      `For ${whomOf(limit)}.${keys}`,
      ...(fullOfKeys(limit) >= NEARLY_FULL ? [warning] : []),
      `${limit.queue ? ` Queue: ${limit.queue}.` : ''}${store}`
    );
  }

  waitsOf(waits) {
    if (!waits.count) return [make('p', {class: 'soft'}, 'No request was granted after a wait.')];
    const most = Math.max(...waits.ranges.map(r => r.count));
    const table = tableOf(
      ['up to', '', 'requests'],
      waits.ranges.map(r => [time(r.end), '', grouped(r.count)])
    );
    waits.ranges.forEach((r, i) => {
      const bar = make('i', {class: 'length', 'aria-hidden': 'true'}),
        cell = table.tBodies[0].rows[i].cells[1];
      bar.style.width = `${((r.count / most) * 100).toFixed(1)}%`;
      cell.className = 'bars';
      cell.append(bar);
    });
    return [
      make(
        'p',
        {class: 'soft'},
        `${plural(waits.count, 'request')}: median ${time(waits.p50)}, p90 ${time(waits.p90)}, ` +
          `p99 ${time(waits.p99)}, longest ${time(waits.max)}.`
      ),
      table
    ];
  }
}

// A form that shows the effect of another rule on the last ten minutes, and applies the rule. Another button restores the
// rule before.
class Change {
  constructor(limit) {
    this.path = `limits/${encodeURIComponent(limit.name)}`;
    this.rule = limit.rule;
    this.input = make('input', {
      name: 'rule',
      value: limit.rule,
      'aria-label': `rule of ${nameOf(limit)}`,
      autocomplete: 'off',
      spellcheck: 'false'
    });
    this.told = make('output', {'aria-live': 'polite'});
    this.changed = make('p', {class: 'soft', 'data-is': 'changed'});
    this.shown = '';
    // The key Enter has the harmless effect.
    const apply = make('button', limit.previewable ? {type: 'button'} : {}, 'Apply');
    const form = make('form', {}, this.input, ...(limit.previewable ? [make('button', {}, 'Preview')] : []), apply);
    form.addEventListener('submit', event => {
      event.preventDefault();
      if (limit.previewable) this.preview();
      else this.apply();
    });
    if (limit.previewable) apply.addEventListener('click', () => this.apply());
    this.parts = [
      form,
      this.told,
      this.changed,
      make('p', {class: 'soft'}, 'A change applies immediately. A reload restores the rule of the file.')
    ];
  }

  // The text of a successful response; null after an error, which is shown.
  async ask(method, path, body) {
    try {
      const answer = await fetch(path, {method, headers: {'Content-Type': 'text/plain'}, body});
      const text = (await answer.text()).trim();
      set(this.told, 'class', answer.ok ? '' : 'bad');
      if (answer.ok) return text;
      show(this.told, text);
    } catch {
      set(this.told, 'class', 'bad');
      show(this.told, 'The proxy does not respond.');
    }
    return null;
  }

  propose(rule) {
    this.input.value = rule;
    this.preview();
  }

  async preview() {
    const text = await inTurn(() => this.ask('POST', `${this.path}/preview`, this.input.value.trim()));
    if (text === null) return;
    const {seconds, requests, kept, now, then} = JSON.parse(text);
    if (!requests) {
      show(this.told, `The limit had no request in the last ${span(seconds)}.`);
      return;
    }
    const estimate = kept < 1 ? ` An estimate from ${percent(kept)} of them.` : '';
    const both = [now, then];
    const row = (title, of) => [title, ...both.map(of)];
    this.told.replaceChildren(
      `${plural(requests, 'request')} of the last ${span(seconds)}, if the limit had been unused before.${estimate}`,
      tableOf(
        ['', `${now.rule} (now)`, then.rule],
        [
          row('granted', side => grouped(side.granted)),
          row('rejected', side => `${grouped(side.rejected)} (${percent(side.rejected / requests)})`),
          row('waited', side => grouped(side.waited)),
          row('p99 wait', side => time(side.p99_wait))
        ]
      )
    );
  }

  async apply() {
    const rule = await this.ask('PUT', this.path, this.input.value.trim());
    if (rule !== null) this.become(rule);
  }

  async undo() {
    const rule = await this.ask('POST', `${this.path}/undo`, '');
    if (rule === null) return;
    this.become(rule);
    this.input.focus(); // the button is about to go
  }

  become(rule) {
    this.rule = this.input.value = rule;
    show(this.told, `Rule is now ${rule}.`);
  }

  update(limit) {
    if (limit.rule !== this.rule) {
      if (this.input.value === this.rule) this.input.value = limit.rule;
      this.rule = limit.rule;
    }
    const change = limit.changed,
      now = change ? `${change.at} ${change.from}` : '';
    if (now === this.shown) return;
    this.shown = now;
    if (!change) {
      this.changed.replaceChildren();
      return;
    }
    const undo = make('button', {type: 'button'}, `Undo: ${change.from}`);
    undo.addEventListener('click', () => this.undo());
    this.changed.replaceChildren(`Changed at ${clock(Date.parse(change.at), true)} from ${change.from}. `, undo);
  }
}

// ---- The order of the table. No row moves while the pointer or the focus is in the table, or a row is open.

let pointed = false;

function isHeld() {
  return pointed || document.activeElement.closest('#limits tbody') || [...rows.values()].some(row => row.detail);
}

function makeLimitsHead() {
  $('limits').replaceChildren(
    headOf(
      COLUMNS.map(([key, title, cls, width]) => {
        if (!key) return [title, cls, width];
        const button = make('button', {class: 'plain'}, title);
        button.addEventListener('click', () => {
          sort = {by: key, down: sort.by === key ? !sort.down : key !== 'name' && key !== 'whom'};
          arrange(true);
        });
        return [button, cls, width, key];
      })
    )
  );
  $('filter').addEventListener('input', () => arrange(true));
  $('filter').addEventListener('keydown', event => {
    if (event.key !== 'Escape') return;
    event.target.value = '';
    arrange(true);
  });
  $('limits').addEventListener('pointerenter', event => {
    pointed = event.pointerType !== 'touch';
  });
  $('limits').addEventListener('pointerleave', () => {
    pointed = false;
  });
}

function compare(a, b) {
  const of = row => row.figures[sort.by],
    x = of(a),
    y = of(b);
  const by = typeof x === 'string' ? x.localeCompare(y, 'en', {numeric: true}) : x - y;
  const worse =
    sort.by === 'state'
      ? b.figures.lately - a.figures.lately || b.figures.p99 - a.figures.p99 || b.figures.use - a.figures.use
      : 0;
  return (sort.down ? -by : by) || worse || a.limit.id - b.limit.id;
}

// Hides the rows that do not match the filter, and orders the rows.
function arrange(now) {
  const table = $('limits'),
    words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean),
    all = [...rows.values()];
  const held = !now && isHeld();
  for (const {limit, figures: f, body, word, detail} of all) {
    const text = `${f.name} ${limit.rule} ${f.whom} ${word.textContent}`.toLowerCase();
    if (!held) body.hidden = !detail && !words.every(one => text.includes(one));
  }
  const hurt = all.filter(row => row.figures.state >= ORDER.indexOf('waiting')).length,
    idle = all.filter(row => row.figures.is === 'idle').length;
  show($('counts'), `${plural(all.length, 'limit')}: ${hurt} rejecting or waiting, ${idle} idle`);
  for (const th of table.querySelectorAll('th[data-key]'))
    if (th.dataset.key === sort.by) set(th, 'aria-sort', sort.down ? 'descending' : 'ascending');
    else th.removeAttribute('aria-sort');
  const sorted = all.sort(compare),
    ids = sorted.map(row => row.limit.id).join();
  show($('held'), ids !== order && held ? '· the order stays while you are in the table' : '');
  if (ids === order || held) return;
  order = ids;
  const active = document.activeElement;
  sorted.forEach((row, i) => {
    const there = table.children[i + 1] ?? null;
    if (there !== row.body) table.insertBefore(row.body, there);
  });
  if (active !== document.activeElement) active.focus({preventScroll: true});
}
