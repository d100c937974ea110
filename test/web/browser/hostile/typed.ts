/** Contents of a message that are no HTML by their type, or HTML in another encoding. */

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
  ['text/html; charset=utf-32be', '<script>{js}</script>'],
  [
    'text/html; charset=shift_jis',
    '<img alt="\u0081"><p title="\u0081" onclick={js}><img src=x onerror={js}>',
  ],
  ['text/html; charset=gb18030', '<img alt="\u0081\u0030"><img src=x onerror={js}>\u0081">'],
  ['text/html; charset=../../etc/passwd', '<script>{js}</script>'],
  ['text/html; name="{js}"; x="</script><script>{js}</script>"', '<img src="{url}">'],
  ['TEXT/HTML;;; charset', '<script>{js}</script><img src="{url}">'],
  [
    'text/plain; format=flowed; delsp=yes',
    '<script>{js} \r\n </script> \r\n> <img src="{url}"> \r\n',
  ],
  ['text/watch-html', '<script>{js}</script><b>x</b>'],
  ['text/sgml', '<!DOCTYPE x SYSTEM "{url}"><x>{js}</x>'],
  ['text/troff', '.sy {js}\r\n.URL {url} <script>{js}</script>'],
  ['text/uri-list', '{url}\r\njavascript:{js}\r\n'],
  [
    'text/rtf',
    '{\\rtf1{\\field{\\*\\fldinst{HYPERLINK "{url}"}}{\\fldrslt <script>{js}</script>}}}',
  ],
  ['application/rtf', '{\\rtf1\\object\\objautlink{\\*\\objclass {url}} <img src=x onerror={js}>}'],
  ['application/x-javascript', '{js}'],
  ['application/hta', '<script>{js}</script><img src="{url}">'],
  [
    'application/mathml+xml',
    '<math xmlns="http://www.w3.org/1998/Math/MathML" href="javascript:{js}"/>',
  ],
  [
    'application/rss+xml',
    '<rss><channel><link>javascript:{js}</link><image><url>{url}</url></image></channel></rss>',
  ],
  [
    'application/xslt+xml',
    '<x:stylesheet xmlns:x="http://www.w3.org/1999/XSL/Transform"><x:import href="{url}"/>{js}</x:stylesheet>',
  ],
  [
    'application/manifest+json',
    '{"start_url":"{url}","icons":[{"src":"{url}"}],"name":"<script>{js}</script>"}',
  ],
  ['application/ms-tnef', 'x\u009f\u003e\u0022<script>{js}</script>{url}'],
  [
    'application/internet-shortcut',
    '[InternetShortcut]\r\nURL=javascript:{js}\r\nIconFile={url}\r\n',
  ],
  ['image/png', '<html><script>{js}</script><img src="{url}"></html>'],
  ['image/gif', 'GIF89a/*<svg onload={js}>*/=1;{js}//{url}'],
  ['image/bmp', 'BM<script>{js}</script>'],
  ['image/webp', 'RIFF\u0004\u0000\u0000\u0000WEBP<script>{js}</script>'],
  [
    'multipart/related; type="text/html"; start="<{js}>"; boundary=r',
    '--r\r\nContent-Type: text/html\r\nContent-ID: <{js}>\r\nContent-Location: {url}\r\n\r\n<img src="{url}"><script>{js}</script>\r\n--r--',
  ],
  [
    'multipart/alternative; boundary=r',
    '--r\r\nContent-Type: text/plain\r\n\r\n<script>{js}</script>\r\n--r\r\nContent-Type: text/html\r\n\r\n<script>{js}</script>\r\n--r\r\nContent-Type: text/x-amp-html\r\n\r\n<script>{js}</script>\r\n--r--',
  ],
  [
    'message/partial; id="<{js}>"; number=1; total=2',
    'Content-Type: text/html\r\n\r\n<script>{js}</script>',
  ],
  [
    'message/http',
    'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nLink: <{url}>; rel=preload\r\n\r\n<script>{js}</script>',
  ],
  [
    'message/disposition-notification',
    'Reporting-UA: <script>{js}</script>\r\nOriginal-Recipient: rfc822;"><img src=x onerror={js}>\r\n',
  ],
];
