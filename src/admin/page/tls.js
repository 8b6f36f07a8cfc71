// The handshakes of TLS, and a table with a row for each certificate.

const CERTIFICATE_COLUMNS = [
  ['Listener', 'l', 200],
  ['Certificate', 'l'],
  ['Expires', 'l', 200],
  ['Left', '', 120]
];
const certificateRows = new Map();

class CertificateRow {
  constructor() {
    const classes = ['l p', 'l p name', 'l', 'p'];
    this.cells = classes.map((cls, i) => make('td', {class: cls, ...(i === 3 ? {'data-label': ' left'} : {})}));
    this.body = make('tbody', {}, make('tr', {class: 'row'}, ...this.cells));
  }

  update(c) {
    const end = Date.parse(c.expires);
    const left = (end - Date.parse(stats.now)) / 1000;
    const texts = [c.listener, c.file, new Date(end).toLocaleString('en-GB'), left > 0 ? span(left) : 'expired'];
    texts.forEach((text, i) => show(this.cells[i], text));
  }
}

// Handshakes since the start; a limit rejects without a handshake.
function textOfHandshakes({full, resumed, failed: {limited, ...failed}}) {
  const reasons = Object.entries(failed).filter(([, n]) => n);
  const causes = reasons.map(([name, n]) => `${grouped(n)} ${name.replaceAll('_', ' ')}`).join(', ');
  return [
    `${plural(full, 'full handshake')}`,
    `${grouped(resumed)} resumed`,
    `${grouped(limited)} rejected by limits`,
    `${grouped(reasons.reduce((sum, [, n]) => sum + n, 0))} failed${causes ? ` (${causes})` : ''}`
  ].join(' · ');
}

function renderTls(tls) {
  const keyOfCertificate = (c, i) => `${c.listener}\n${c.file}\n${i}`;
  updateRows(
    certificateRows,
    new Map(tls.certificates.map((c, i) => [keyOfCertificate(c, i), c])),
    () => new CertificateRow(),
    $('certificates')
  );
  show($('handshakes'), textOfHandshakes(tls));
  $('tls-part').hidden = !tls.certificates.length;
}
