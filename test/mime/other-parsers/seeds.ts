/** Messages of which mutations are made: what mail programs write, small. */

const HEAD = [
  'Received: from mail.example.org by mx.example.net;',
  '\tTue, 3 Mar 2020 10:00:01 +0000',
  'From: Ada Tester <ada@example.org>',
  'To: bob@example.net',
  'Date: Tue, 3 Mar 2020 10:00:00 +0000',
  'Message-ID: <seed@example.org>',
  'Subject: Minutes of the meeting',
  'MIME-Version: 1.0',
];

type Lines = readonly string[];

const base64 = (text: string): Lines =>
  Buffer.from(text, 'latin1')
    .toString('base64')
    .match(/.{1,76}/g) ?? [];

const part = (type: string, body: Lines, ...fields: Lines): Lines => [
  `Content-Type: ${type}`,
  ...fields,
  '',
  ...body,
];

function multipart(type: string, boundary: string, parts: readonly Lines[]): Lines {
  return [
    // Some programs fold the line, others do not.
    `Content-Type: multipart/${type};${boundary.length > 6 ? '\r\n\t' : ' '}boundary="${boundary}"`,
    '',
    ...parts.flatMap((lines) => [`--${boundary}`, ...lines]),
    `--${boundary}--`,
    '',
  ];
}

const attached = (name: string, type: string, bytes: string): Lines =>
  part(
    `${type};\r\n name="${name}"`,
    base64(bytes),
    'Content-Transfer-Encoding: base64',
    `Content-Disposition: attachment; filename="${name}"`,
  );

const plain = part(
  'text/plain; charset=utf-8',
  ['Dear colleagues,', '', 'the otters meet on Thursday.', '-- ', 'Ada'],
  'Content-Transfer-Encoding: 7bit',
);
const html = part(
  'text/html; charset=utf-8',
  ['<html><body><p>Dear colleagues,</p>', '<p>the otters meet on=', ' Thursday.</p></body></html>'],
  'Content-Transfer-Encoding: quoted-printable',
);
const quoted = part(
  'text/plain; charset=iso-8859-1',
  ['A heron called Gr=F6=DFe lives =', 'here, near the weir.', '', 'Kingfishers too.'],
  'Content-Transfer-Encoding: quoted-printable',
);
const encoded = part(
  'text/plain; charset=utf-8',
  base64('Plovers breed on the shingle, and sandpipers rest there on their way south.\r\n'),
  'Content-Transfer-Encoding: base64',
);
const pdf = attached('plan.pdf', 'application/pdf', '%PDF-1.4 the plan of the pond, page by page');
const picture = attached(
  'map.png',
  'image/png',
  '\x89PNG\r\n\x1a\n and then the rest of a picture',
);
const inner = [...HEAD.slice(2, 6), 'Subject: forwarded', ...plain];
const alternative = multipart('alternative', 'alt-1', [plain, html]);

export const SEEDS: readonly Buffer[] = [
  plain,
  quoted,
  encoded,
  html,
  pdf,
  alternative,
  multipart('mixed', 'b', [plain, pdf]),
  multipart('mixed', '----=_NextPart_000', [alternative, pdf, picture]),
  multipart('mixed', 'outer', [
    multipart('related', 'outer-1', [alternative, picture]),
    pdf,
    quoted,
  ]),
  multipart('mixed', 'b1', [encoded, part('message/rfc822', inner), pdf]),
  multipart('digest', 'dig', [
    ['', ...inner],
    ['', ...inner],
  ]),
  multipart('signed; protocol="application/pgp-signature"', 'sig', [
    quoted,
    attached('signature.asc', 'application/pgp-signature', '-----BEGIN PGP SIGNATURE-----'),
  ]),
  multipart('report; report-type=delivery-status', 'rep', [
    plain,
    part('message/delivery-status', ['Reporting-MTA: dns; mx.example.net', '', 'Action: failed']),
    part('message/rfc822', inner),
  ]),
].map((lines) => Buffer.from([...HEAD, ...lines, ''].join('\r\n'), 'latin1'));
