// The listeners for any protocol: a table with a row for each, and for each of their routes.

const TCP_COLUMNS = [
  ['Listener', 'l', 200],
  ['Upstream', 'l'],
  ['Connections', '', 120],
  ['Waiting', '', 100],
  ['Served', '', 100],
  ['Rejected', '', 100],
  ['Left', '', 100],
  ['Failed', '', 100],
  ['From clients', '', 120],
  ['To clients', '', 120]
];
const tcpRows = new Map();

/** The listener, and the server names of the route. */
function tcpName(t) {
  return t.sni ? `${t.name} ${t.sni}` : t.name;
}

class TcpRow {
  constructor() {
    const classes = ['l p name', 'l p', 'p', 'p', '', 'p', '', 'p', '', ''];
    const labels = {2: ' open', 3: ' waiting', 5: ' rejected', 7: ' failed'};
    this.cells = classes.map((cls, i) => make('td', {class: cls, ...(labels[i] ? {'data-label': labels[i]} : {})}));
    this.body = make('tbody', {}, make('tr', {class: 'row'}, ...this.cells));
  }

  update(t) {
    const counts = [t.active, t.waiting, t.served, t.rejected + t.unrouted, t.disconnected, t.failed];
    const texts = [tcpName(t), t.upstream || 'none', ...counts.map(grouped), size(t.bytes_up), size(t.bytes_down)];
    texts.forEach((text, i) => show(this.cells[i], text));
  }
}
