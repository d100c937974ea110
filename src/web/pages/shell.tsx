import type { ComponentChildren, VNode } from 'preact';
import { count } from '../../wording/amounts.ts';
import type { ClosingSum, PastSum } from '../reading/closing-sum.ts';
import { pageAddress } from '../reading/query-text.ts';
import type { SideEntry, SideTree } from '../reading/side-tree.ts';
import type { QueryProblem } from '../reading/understood-query.ts';
import type { Assets } from '../server/assets.ts';
import { Brand, Document } from './frame.tsx';
import { folderIcon, Icon, type IconName } from './icons.tsx';
import { Moment } from './moment.tsx';

/** What stands around each page of the archive. */
export interface ShellProps {
  readonly assets: Assets;
  readonly title: string;
  /** What stands in the query box, byte for byte. */
  readonly query: string;
  readonly problem: QueryProblem | null;
  readonly tree: SideTree;
  readonly closing: ClosingSum;
  /** The moment of `asof:`; null for now. */
  readonly past: PastSum | null;
  /** Matters of the archive that need a person. */
  readonly matters: number;
  readonly here: 'mail' | 'message' | 'health';
  readonly reading?: boolean;
  readonly children: ComponentChildren;
}

/** The frame of a page: query bar, side, main, closing sentence. */
export function Shell(props: ShellProps): VNode {
  const { assets, title, query, problem, tree, past, here, reading = false, children } = props;
  const states = [
    `at-${here}`,
    ...(past === null ? [] : ['in-past']),
    ...(reading ? ['has-message'] : []),
  ];
  return (
    <Document assets={assets} title={`${title} · mailkeep`} class={states.join(' ')}>
      <a class="skip" href="#results">
        Skip to the results
      </a>
      <div class="app">
        <header class="bar">
          <Brand home />
          <QueryBox query={query} problem={problem} />
          {past === null ? (
            <span class="stat wide">
              <Icon name="past" />
              As of now
            </span>
          ) : (
            <span class="stat past">
              <Icon name="past" />
              As of <Moment ms={past.asOf} />
            </span>
          )}
          <a class="stat wide" href="/you" title="Signed-in browsers">
            <Icon name="person" />
            <span class="vh">Signed-in browsers</span>
          </a>
        </header>
        <Side tree={tree} query={query} here={here} matters={props.matters} />
        <main class="main" id="results" tabindex={-1}>
          {children}
        </main>
        <Foot closing={props.closing} past={past} />
      </div>
    </Document>
  );
}

function QueryBox({ query, problem }: Pick<ShellProps, 'query' | 'problem'>): VNode {
  return (
    <search class="searching">
      <form class={problem === null ? 'query' : 'query wrong'} action="/mail">
        <Icon name="search" />
        <input
          name="q"
          value={query}
          aria-label="Query"
          placeholder="Search everything: from:anna has:attachment after:2026-01"
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          enterkeyhint="search"
          aria-invalid={problem === null ? undefined : 'true'}
          aria-describedby={problem === null ? undefined : 'problem'}
        />
        {query !== '' && (
          <a class="clear" href="/mail" title="Clear the query">
            <Icon name="cross" />
            <span class="vh">Clear the query</span>
          </a>
        )}
        <button type="submit" class="vh">
          Search
        </button>
      </form>
    </search>
  );
}

function Side({
  tree,
  query,
  here,
  matters,
}: Pick<ShellProps, 'tree' | 'query' | 'here' | 'matters'>): VNode {
  const item = (entry: SideEntry, icon: IconName, level: string, name = entry.name): VNode => (
    <a
      key={entry.query}
      class={level}
      href={pageAddress('/mail', { q: entry.query })}
      aria-current={here === 'mail' && query.trim() === entry.query ? 'page' : undefined}
      title={entry.name}
    >
      <Icon name={icon} />
      <span>
        <bdi>{name}</bdi>
      </span>
      {entry.count !== null && <span class="n">{count(entry.count)}</span>}
    </a>
  );
  return (
    <nav class="side" aria-label="Archive">
      <input type="checkbox" id="drawer" class="vh" />
      <label for="drawer">
        <Icon name="folder" />
        Folders
      </label>
      <div class="drawer">
        <div>
          {item(tree.all, 'mail', 'strong')}
          <a class="strong" href="/health" aria-current={here === 'health' ? 'page' : undefined}>
            <Icon name="pulse" />
            <span>Health</span>
            {matters > 0 && (
              <span class="n">
                <span class="tag warn">{matters}</span>
              </span>
            )}
          </a>
        </div>
        {tree.saved.length > 0 && (
          <div>
            <h2>Saved searches</h2>
            {tree.saved.map(({ name, query: saved }) => (
              <a key={name} href={pageAddress('/mail', { q: saved })}>
                <Icon name="tag" />
                <span>
                  <bdi>{name}</bdi>
                </span>
              </a>
            ))}
          </div>
        )}
        <div>
          <h2>Mailboxes</h2>
          {tree.mailboxes.map((mailbox) => (
            <div key={mailbox.query} class="mailbox">
              {item(mailbox, mailbox.imported ? 'box' : 'mail', 'strong')}
              {mailbox.folders.map((folder) =>
                item(folder, folderIcon(folder.name, folder.specialUse), 'l2'),
              )}
              {mailbox.earlier.length > 0 && (
                <details class="earlier">
                  <summary>Earlier folders</summary>
                  {mailbox.earlier.map((folder) => item(folder, 'folder', 'l2'))}
                </details>
              )}
            </div>
          ))}
        </div>
        <div>
          <h2>Kept only here</h2>
          {item(tree.ended, 'past', '')}
        </div>
      </div>
    </nav>
  );
}

/** The bottom line of every page: does the archive add up. */
function Foot({ closing, past }: Pick<ShellProps, 'closing' | 'past'>): VNode {
  if (past !== null)
    return (
      <footer class="foot">
        <span class="sum">
          As of <Moment ms={past.asOf} />: <b>{count(past.messages)}</b> messages known,{' '}
          <b>{count(past.ended)}</b> of them deleted at the service by then
        </span>
      </footer>
    );
  const { open, held, quarantined, forgotten, ended, imported, commit } = closing;
  const total = open + quarantined + forgotten;
  return (
    <footer class="foot">
      {total > 0 || imported === 0 ? (
        <span class="sum">
          <b>{count(total)}</b> at the service = <b>{count(open - held)}</b> stored
          {quarantined > 0 && (
            <>
              {' + '}
              <b>{count(quarantined)}</b> in quarantine
            </>
          )}
          {held > 0 && (
            <>
              {' + '}
              <b>{count(held)}</b> held
            </>
          )}
          {forgotten > 0 && (
            <>
              {' + '}
              <b>{count(forgotten)}</b> forgotten
            </>
          )}
        </span>
      ) : (
        <span class="sum">
          <b>{count(imported)}</b> imported from files
        </span>
      )}
      {total > 0 && imported > 0 && (
        <span class="faint">· {count(imported)} imported from files</span>
      )}
      {ended > 0 && (
        <a class="faint" href={pageAddress('/mail', { q: 'is:deleted' })}>
          · and {count(ended)} deleted there, kept only here
        </a>
      )}
      <span class="spacer" />
      <span>commit {count(commit)}</span>
    </footer>
  );
}
