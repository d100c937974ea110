import type { Assets } from '../assets.ts';
import { Document } from './frame.tsx';
import { PageView } from './mail-page.tsx';
import type { Page } from './page.ts';
import { Parts, pageClasses, pageTitle } from './parts.ts';
import { PLAIN_PARTS } from './plain-pages.tsx';

export function ArchiveDocument({ assets, page }: { assets: Assets; page: Page }) {
  const styles = stylesOf(page);
  const parts = { ...PLAIN_PARTS, AfterBar: () => <WaitingLink assets={assets} /> };
  return (
    <Document
      assets={assets}
      title={`${pageTitle(page)} · mailkeep`}
      scripts={['app.js']}
      styles={styles}
      laterStyles={styles.includes(LATER) ? undefined : LATER}
      class={pageClasses(page)}
    >
      <div id="root">
        <Parts.Provider value={parts}>
          <PageView page={page} />
        </Parts.Provider>
      </div>
      {/* Data that the browser does not run. The escape keeps it from closing the element. */}
      <script
        type="application/json"
        id="page"
        dangerouslySetInnerHTML={{
          __html: JSON.stringify(takenOver(page)).replaceAll('<', '\\u003c'),
        }}
      />
    </Document>
  );
}

/**
 * The parser waits for styles in the body, but not for those in the head. The browser therefore paints the bar as soon
 * as it has the styles of the head, before it parses the rest. It also never lays out the rest without styles, as it
 * otherwise does if an event reaches the window first.
 */
function WaitingLink({ assets }: { assets: Assets }) {
  return <link rel="stylesheet" href={assets.address('without-script.css')} />;
}

const LATER = 'later.css';

function stylesOf(page: Page): readonly string[] {
  switch (page.kind) {
    case 'health':
    case 'dashboard':
    case 'export':
      return ['numbers.css'];
    case 'mail':
      return page.message === null ? [] : [LATER];
    default:
      return [LATER];
  }
}

/** Returns the data that the script needs: the page, or only its frame if the script keeps the server's content. */
function takenOver(page: Page): Page {
  const { frame, kind } = page;
  if (kind !== 'health' && kind !== 'dashboard' && kind !== 'export') return page;
  const zone = kind === 'dashboard' ? page.zone : null;
  return { frame, kind: 'still', of: kind, title: pageTitle(page), zone };
}
