// The limits of bytes: a table with a row for each direction.

const BANDWIDTH_COLUMNS = [
  ['Limit', 'l'],
  ['Direction', 'l', 94],
  ['Rate', 'l', 200],
  ['Key', 'l', 200],
  ['Passed', '', 120],
  ['Waiting', '', 100],
  ['Waited', '', 100]
];
const bandwidthRows = new Map();

class BandwidthRow {
  constructor() {
    this.cells = BANDWIDTH_COLUMNS.map(([, cls], i) => make('td', {class: i ? cls : 'l p name'}));
    this.body = make('tbody', {}, make('tr', {class: 'row'}, ...this.cells));
  }

  update(b) {
    const texts = [
      b.name,
      b.direction === 'up' ? 'from clients' : 'to clients',
      b.rate,
      b.key,
      size(b.bytes),
      grouped(b.waiting),
      time(b.waited_total)
    ];
    texts.forEach((text, i) => show(this.cells[i], text));
  }
}
