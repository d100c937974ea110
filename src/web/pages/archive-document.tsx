import type { VNode } from 'preact';
import type { Assets } from '../server/assets.ts';
import { Document } from './frame.tsx';
import { LaterPages } from './later-pages.tsx';
import type { Page } from './page.ts';
import { pageClasses, pageTitle } from './page-title.ts';
import { PageView } from './page-view.tsx';
import { Parts, PLAIN_PARTS } from './parts.ts';

/** A page of the archive as a document, with its data for the script that takes over. */
export function ArchiveDocument({
  assets,
  page,
}: {
  readonly assets: Assets;
  readonly page: Page;
}): VNode {
  return (
    <Document
      assets={assets}
      title={`${pageTitle(page)} · mailkeep`}
      scripts={['app.js']}
      class={pageClasses(page)}
    >
      <div id="root">
        <Parts.Provider value={{ ...PLAIN_PARTS, Later: LaterPages }}>
          <PageView page={page} />
        </Parts.Provider>
      </div>
      {/* Data that no browser runs. Nothing in it can end the element. */}
      <script
        type="application/json"
        id="page"
        dangerouslySetInnerHTML={{ __html: JSON.stringify(page).replaceAll('<', '\\u003c') }}
      />
    </Document>
  );
}
