import type { ComponentChildren, VNode } from 'preact';
import { count } from '../../wording/amounts.ts';
import { pageAddress } from '../reading/query-text.ts';
import { StateLink } from './archive-state.tsx';
import { BottomNav } from './bottom-nav.tsx';
import { Brand } from './frame.tsx';
import { Icon } from './icons.tsx';
import { Moment } from './moment.tsx';
import type { Frame, Here } from './page.ts';
import { useParts } from './parts.ts';
import { Side } from './side.tsx';

export interface ShellProps {
  readonly frame: Frame;
  readonly here: Here;
  /** A page of the mail without a place for a message. */
  readonly isList?: boolean;
  readonly children: ComponentChildren;
}

/** What stands around each page: query bar, side, main, closing sentence. */
export function Shell({ frame, here, isList = false, children }: ShellProps): VNode {
  const { query, tree, past, closing, matters } = frame;
  const { QueryBox, TimeBand } = useParts();
  return (
    <>
      <a class="skip" href="#results">
        Skip to the results
      </a>
      {(here === 'mail' || here === 'message') && !isList && (
        <a class="skip" href="#message">
          Skip to the message
        </a>
      )}
      <div class="app">
        <header class="bar">
          <input type="checkbox" id="drawer" class="vh toggle" aria-label="Folders" />
          <label for="drawer" class="stat drawer-button">
            <Icon name="lines" />
            <span class="vh">Folders</span>
          </label>
          <Brand home />
          <QueryBox frame={frame} here={here} />
          {past === null ? (
            <a class="stat as-now" href="#then">
              <Icon name="past" />
              As of now
            </a>
          ) : (
            <a class="stat past" href="#then">
              <Icon name="past" />
              As of <Moment ms={past.asOf} />
            </a>
          )}
          <StateLink state={frame.state} matters={matters} />
          <a class="stat wide" href="/you" title="Settings">
            <Icon name="person" />
            <span class="vh">Settings</span>
          </a>
        </header>
        <Side tree={tree} query={query} here={here} matters={matters} />
        <main class="main" id="results" tabindex={-1}>
          <TimeBand frame={frame} />
          {children}
        </main>
        <Foot closing={closing} past={past} deleted={tree.ended.count} />
        <BottomNav here={here} query={query} matters={matters} />
        <label for="drawer" class="scrim">
          <span class="vh">Close the folders</span>
        </label>
      </div>
    </>
  );
}

<<<<<<< HEAD
function Side({
  tree,
  query,
  here,
  matters,
}: Pick<Frame, 'tree' | 'query' | 'matters'> & Pick<ShellProps, 'here'>): VNode {
  const item = (entry: SideEntry, icon: IconName, level: string, name = entry.name): VNode => {
    const shown = (
      <>
        <Icon name={icon} />
        <span>
          <bdi>{name}</bdi>
        </span>
        {entry.count !== null && <span class="n">{count(entry.count)}</span>}
      </>
    );
    return entry.query === null ? (
      <span key={entry.name} class={`unlinked ${level}`} title={entry.name}>
        {shown}
      </span>
    ) : (
      <a
        key={entry.query}
        class={level}
        href={pageAddress('/mail', { q: entry.query })}
        aria-current={here === 'mail' && query.trim() === entry.query ? 'page' : undefined}
        title={entry.name}
      >
        {shown}
      </a>
    );
  };
  return (
    <nav class="side" aria-label="Archive">
      <div class="drawer">
        <label for="drawer" class="drawer-close">
          <Icon name="cross" />
          Close
        </label>
        <div>
          {item(tree.all, 'mail', 'strong')}
          <a
            class="strong"
            href={pageAddress('/files', { q: here === 'mail' ? query : asOfWord(query) })}
            aria-current={here === 'files' ? 'page' : undefined}
          >
            <Icon name="clip" />
            <span>Attachments</span>
          </a>
          <a
            class="strong"
            href="/dashboard"
            aria-current={here === 'dashboard' ? 'page' : undefined}
          >
            <Icon name="chart" />
            <span>Dashboard</span>
          </a>
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
            <div key={mailbox.query ?? mailbox.name} class="mailbox">
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
        <div class="drawer-only">
          <a href="/you">
            <Icon name="person" />
            <span>Settings</span>
          </a>
        </div>
      </div>
    </nav>
  );
}

=======
>>>>>>> 64c76d7 (Show the state of the archive around every page)
/** The bottom line of every page: does the archive add up. */
function Foot({
  closing,
  past,
  deleted,
}: Pick<Frame, 'closing' | 'past'> & {
  /** Messages, as the link counts them: a message that was moved has left a place, and is not deleted. */
  readonly deleted: number | null;
}): VNode {
  if (past !== null)
    return (
      <footer class="foot">
        <span class="sum">
          As of <Moment ms={past.asOf} />:{' '}
          {past.messages !== null && (
            <>
              <b>{count(past.messages)}</b> messages known
            </>
          )}
          {past.ended !== null && (
            <>
              , <b>{count(past.ended)}</b> of them deleted at the service by then
            </>
          )}
        </span>
      </footer>
    );
  const { open, held, quarantined, forgotten, imported, commit } = closing;
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
      {deleted !== null && deleted > 0 && (
        <a class="faint" href={pageAddress('/mail', { q: 'is:deleted' })}>
          · and {count(deleted)} deleted there, kept only here
        </a>
      )}
      <span class="spacer" />
      <span>commit {count(commit)}</span>
    </footer>
  );
}
