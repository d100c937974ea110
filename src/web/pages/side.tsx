import { count, dayText } from '../../core/text.ts';
import { asOfWord, pageAddress } from '../query-text.ts';
import type { EarlierFolder, SideEntry, SideMailbox } from '../side-tree.ts';
import { folderIcon, Icon, type IconName } from './icons.tsx';
import type { Frame, Here } from './page.ts';
import { useParts } from './parts.ts';

interface SideProps extends Pick<Frame, 'tree' | 'query' | 'matters'> {
  readonly here: Here;
}

/** Maximum mailboxes that are unfolded by default; if there are more, only the first is. */
const MAX_UNFOLDED = 3;

export function Side({ tree, query, here, matters }: SideProps) {
  const current = here === 'mail' ? query.trim() : null;
  return (
    <nav class="side" aria-label="Archive">
      <div class="drawer">
        <label for="drawer" class="drawer-close">
          <Icon name="cross" />
          Close
        </label>
        <div>
          <Entry entry={tree.all} icon="mail" level="strong" current={current} />
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
          <h2>
            Mailboxes <span>unread, all</span>
          </h2>
          {tree.mailboxes.map((mailbox, at) => (
            <Mailbox
              key={mailbox.query ?? mailbox.name}
              {...{ mailbox, current, at }}
              isUnfolded={at === 0 || tree.mailboxes.length <= MAX_UNFOLDED}
            />
          ))}
        </div>
        <div>
          <h2>Kept only here</h2>
          <Entry entry={tree.ended} icon="past" level="" current={current} />
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

/** A mailbox, which can be folded if it has folders. */
function Mailbox({
  mailbox,
  current,
  at,
  isUnfolded,
}: {
  mailbox: SideMailbox;
  current: string | null;
  at: number;
  isUnfolded: boolean;
}) {
  const { isUnfolded: chosen } = useParts();
  const { folders, earlier, imported } = mailbox;
  const own = (
    <Entry entry={mailbox} icon={imported ? 'box' : 'mail'} level="strong" current={current} />
  );
  if (folders.length + earlier.length === 0) return own;
  const isCurrent = folders.some(({ query }) => query === current);
  return (
    <div class="mailbox">
      {/* Next to the summary, not in it: screen readers do not expose a link inside a button. */}
      {own}
      <details data-fold={at} open={chosen(String(at)) ?? (isUnfolded || isCurrent)}>
        <summary aria-label={`Folders of ${mailbox.name}`}>
          <Icon name="down" />
        </summary>
        {folders.map((folder) => (
          <Entry
            key={folder.query ?? folder.name}
            entry={folder}
            icon={folderIcon(folder.path ?? folder.name, folder.specialUse)}
            level="l2"
            current={current}
          />
        ))}
        {earlier.length > 0 && (
          <details class="earlier">
            <summary>Earlier folders</summary>
            {earlier.map((folder) => (
              <Entry
                key={folder.query ?? folder.name}
                entry={folder}
                icon="folder"
                level="l2"
                life={folder}
                current={current}
              />
            ))}
          </details>
        )}
      </details>
    </div>
  );
}

/** A link to a query with its number of messages, and one to the unread ones. */
function Entry({
  entry: { name, path, query, tag, unread, ...entry },
  icon,
  level,
  current,
  life,
}: {
  entry: SideEntry;
  icon: IconName;
  level: 'strong' | 'l2' | '';
  /** The query of the shown list; null on other pages. */
  current: string | null;
  life?: Pick<EarlierFolder, 'from' | 'to'>;
}) {
  const shown = (
    <>
      <Icon name={icon} />
      <span>
        <bdi>{name}</bdi>
        {life !== undefined && (
          <time class="life">
            {dayText(life.from)} – {dayText(life.to)}
          </time>
        )}
      </span>
      {tag !== null && <span class={tag === 'incomplete' ? 'tag warn' : 'tag'}>{tag}</span>}
      {entry.count !== null && <span class="n">{count(entry.count)}</span>}
    </>
  );
  return (
    <div class="entry">
      {query === null ? (
        <span class={`unlinked ${level}`} title={path ?? name}>
          {shown}
        </span>
      ) : (
        <a
          class={level}
          href={pageAddress('/mail', { q: query })}
          aria-current={current === query ? 'page' : undefined}
          title={path ?? name}
        >
          {shown}
        </a>
      )}
      {unread !== null && (
        <a class="unread" href={pageAddress('/mail', { q: unread.query })} title="Unread">
          {count(unread.count)}
          <span class="vh"> unread in {name}</span>
        </a>
      )}
    </div>
  );
}
