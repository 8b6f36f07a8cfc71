// The page, once a second.

// The head of a table: each column has a title, a class, a width and the key by which it orders.
function headOf(columns) {
  return make(
    'thead',
    {},
    make(
      'tr',
      {},
      ...columns.map(([title, cls, width, key]) =>
        make('th', {scope: 'col', class: cls, ...(width ? {width} : {}), ...(key ? {'data-key': key} : {})}, title)
      )
    )
  );
}

// Adds and removes rows, so that there is one for each key of `wanted`, and updates them.
function updateRows(shown, wanted, create, table) {
  for (const [key, row] of shown) {
    if (wanted.has(key)) continue;
    row.detail?.drop();
    row.body.remove();
    shown.delete(key);
    order = '';
  }
  for (const [key, what] of wanted) {
    if (!shown.has(key)) {
      shown.set(key, create(what));
      table.append(shown.get(key).body);
      order = '';
    }
    shown.get(key).update(what);
  }
}

let paused = false,
  begun = false;

function begin() {
  makeSignals();
  makeLimitsHead();
  $('servers').replaceChildren(headOf(SERVER_COLUMNS));
  $('bandwidths').replaceChildren(headOf(BANDWIDTH_COLUMNS));
  $('tcp').replaceChildren(headOf(TCP_COLUMNS));
  $('certificates').replaceChildren(headOf(CERTIFICATE_COLUMNS));
}

function render() {
  if (!begun) begin();
  // A limit that may be changed since a reload gets another row.
  updateRows(rows, new Map(stats.limits.map(l => [l.id, l])), l => new LimitRow(l), $('limits'));
  updateRows(
    serverRows,
    new Map(stats.upstreams.flatMap(u => u.servers.map(s => [keyOf(u, s), [u, s]]))),
    () => new ServerRow(),
    $('servers')
  );
  updateRows(
    bandwidthRows,
    new Map(stats.bandwidths.map(b => [`${b.name}\n${b.direction}`, b])),
    () => new BandwidthRow(),
    $('bandwidths')
  );
  $('bandwidths-part').hidden = !stats.bandwidths.length;
  updateRows(tcpRows, new Map(stats.tcp.map(t => [tcpName(t), t])), () => new TcpRow(), $('tcp'));
  $('tcp-part').hidden = !stats.tcp.length;
  renderTls(stats.tls);
  arrange(false);
  renderNow();
  for (const svg of $('signals').querySelectorAll('svg')) svg.plot.draw();
  const {
      connections: {open, upgraded}
    } = stats,
    up = (Date.parse(stats.now) - Date.parse(stats.started)) / 1000;
  show(
    $('about'),
    `${plural(open, 'connection')}${upgraded ? `, ${grouped(upgraded)} upgraded` : ''} · up ${span(up)}`
  );
  show($('since'), `weir-proxy ${stats.version}, since ${new Date(stats.started).toLocaleString('en-GB')}.`);
  if (begun) return;
  begun = true;
  for (const name of location.hash.slice(1).split(','))
    for (const l of stats.limits) if (encodeURIComponent(l.name) === name) openRow(l.id);
}

function connect(on) {
  set(document.body, 'class', on ? '' : 'off');
  show($('link'), !on ? '▲ connection lost; reconnecting' : paused ? '❚❚ paused' : '● live');
  set($('link'), 'class', on ? 'good' : 'bad');
  if (on || !stats) return;
  set($('now'), 'class', 'bad');
  show($('sentence'), 'The proxy does not respond. The numbers below are the last ones.');
  show($('also'), '');
  show($('help'), '');
}

$('pause').addEventListener('click', () => {
  paused = !paused;
  set($('pause'), 'aria-pressed', String(paused));
  connect(true);
  if (!paused && stats) render();
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && !paused && stats) render();
});

const events = new EventSource('events');
events.addEventListener('history', event => {
  forget();
  note(JSON.parse(event.data));
});
events.addEventListener('state', event => {
  const told = JSON.parse(event.data);
  note(told.last);
  stats = told.stats;
  base = Date.parse(stats.now) - second * 1000;
  connect(true);
  if (!paused && !document.hidden) render();
});
// The browser does not retry some failures, such as a 503 response; the page reloads itself.
events.onerror = () => {
  connect(false);
  if (events.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 3000);
};
