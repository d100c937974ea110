import { type ComponentChildren, toChildArray, type VNode } from 'preact';
import { useLayoutEffect } from 'preact/hooks';
import type { Span } from '../../search/ast.ts';
import { Icon } from '../pages/icons.tsx';
import type { Frame } from '../pages/page.ts';
import { findTerm, withoutTerm } from '../reading/query-terms.ts';
import { pageAddress, toggled } from '../reading/query-text.ts';
import { ChipMenu, Choice } from './chip-menu.tsx';
import { labelOf } from './filter-labels.ts';
import {
  ATTACHMENT,
  chipsOf,
  DELETED,
  type Deleted,
  UNREAD,
  withDeleted,
  withFolder,
  withSlot,
} from './filter-terms.ts';
import { laterPart } from './later-part.tsx';
import { useOneColumn } from './one-column.ts';
import { setSaving } from './saving-mode.ts';
import { useViewer } from './viewer-context.ts';

const FolderMenu = laterPart((extras) => extras.FolderMenu);
const PeopleMenu = laterPart((extras) => extras.PeopleMenu);
const SinceMenu = laterPart((extras) => extras.SinceMenu);

const MORE = [
  ['is:starred', 'Starred'],
  ['is:unanswered', 'Not answered'],
  ['from:me', 'From me'],
  ['to:me', 'To me'],
  ['has:inline', 'Inline pictures'],
  ['larger:5M', 'Larger than 5 MB'],
  ['is:draft', 'Draft'],
] as const;

const DELETED_TEXTS: Readonly<Record<Deleted, readonly [string, string]>> = {
  shown: ['Deleted: shown', 'With deleted messages'],
  only: ['Deleted: only', 'Only deleted messages'],
  week: ['Deleted: last 7 days', 'Deleted in the last 7 days'],
  month: ['Deleted: last 30 days', 'Deleted in the last 30 days'],
  hidden: ['Deleted: hidden', 'Without deleted messages'],
};

/** The query as chips: each writes it, and what else was typed stays as it is. */
export function LiveChips({ frame }: { readonly frame: Frame }): VNode {
  const viewer = useViewer();
  const query = viewer.address.searchParams.get('q') ?? '';
  const { slots, attachment, unread, deleted, asOf, others, either } = chipsOf(query);
  const write = (text: string): void => viewer.type(text);
  const without = (term: Span): void => write(withoutTerm(query, term));
  const folder = slots.in ?? slots.mailbox;
  const menuOf = (close: () => void, text: string): void => {
    close();
    write(text);
  };
  return (
    <nav class="chips live" aria-label="Filters">
      <Strip>
        <ChipMenu
          key="in"
          id="menu-in"
          label={folder === undefined ? 'In anywhere' : labelOf(folder)}
          isOn={folder !== undefined}
          remove={() => write(withFolder(query, ''))}
        >
          {(close) => (
            <FolderMenu
              tree={frame.tree}
              chosen={folder}
              choose={(entry) => menuOf(close, withFolder(query, entry))}
            />
          )}
        </ChipMenu>
        <ChipMenu
          key="from"
          id="menu-from"
          label={slots.from === undefined ? 'From anyone' : labelOf(slots.from)}
          isOn={slots.from !== undefined}
          remove={() => write(withSlot(query, 'from', null))}
        >
          {(close) => (
            <PeopleMenu choose={(text) => menuOf(close, withSlot(query, 'from', text))} />
          )}
        </ChipMenu>
        <ChipMenu
          key="since"
          id="menu-since"
          label={slots.since === undefined ? 'Any time' : labelOf(slots.since)}
          isOn={slots.since !== undefined}
          remove={() => write(withSlot(query, 'since', null))}
        >
          {(close) => (
            <SinceMenu choose={(text) => menuOf(close, withSlot(query, 'since', text))} />
          )}
        </ChipMenu>
        <Switch
          key="has"
          label="Has attachment"
          isOn={attachment !== undefined}
          change={() => write(toggled(query, ATTACHMENT))}
        />
        {either !== null && (
          <Switch key="either" label={either} isOn isText change={() => write('')} />
        )}
        {others.map((term) => {
          const label = labelOf(term);
          return (
            <Switch
              key={`${term.start} ${term.text}`}
              label={label}
              isOn
              isText={label === term.text}
              change={() => without(term)}
            />
          );
        })}
        <Switch
          key="unread"
          label="Unread"
          isOn={unread !== undefined}
          change={() => write(toggled(query, UNREAD))}
        />
        <ChipMenu key="more" id="menu-more" label="More" isOn={false}>
          {() =>
            MORE.map(([text, label]) => {
              const isOn = findTerm(query, text) !== undefined;
              return (
                <Choice key={text} isOn={isOn} choose={() => write(toggled(query, text))}>
                  {label}
                </Choice>
              );
            })
          }
        </ChipMenu>
        <span key="sep" class="sep" />
        <ChipMenu
          key="deleted"
          id="menu-deleted"
          label={DELETED_TEXTS[deleted][0]}
          isOn={deleted !== 'shown'}
        >
          {(close) =>
            DELETED.map((choice) => (
              <Choice
                key={choice}
                isOn={choice === deleted}
                choose={() => menuOf(close, withDeleted(query, choice))}
              >
                {DELETED_TEXTS[choice][1]}
              </Choice>
            ))
          }
        </ChipMenu>
        {asOf !== undefined && (
          <Past key="asof" isOn label={labelOf(asOf)} change={() => without(asOf)} />
        )}
      </Strip>
      <span class="spacer" />
      <span class="acts">
        {frame.state.whole && (
          <button type="button" class="btn quiet" data-act="save" onClick={() => setSaving(true)}>
            <Icon name="tag" />
            Save
          </button>
        )}
        <a class="btn quiet" data-act="export" href={pageAddress('/export', { q: query })}>
          <Icon name="save" />
          Export
        </a>
      </span>
    </nav>
  );
}

/**
 * The chips in a row. In one column there is room for few of them: those that are on come first, for the eye and for Tab.
 */
function Strip({ children }: { readonly children: ComponentChildren }): VNode {
  const isNarrow = useOneColumn();
  const chips = toChildArray(children).filter((chip) => typeof chip === 'object');
  const isOn = ({ props }: VNode<object>): boolean => 'isOn' in props && props.isOn === true;
  const [on, off] = [chips.filter(isOn), chips.filter((chip) => !isOn(chip))];
  // A chip that changes its place would lose the focus; one that goes leaves it to the first. Where nothing has the focus,
  // the body does: that is left alone, since a focus has the browser lay out the page at once.
  const { activeElement: held, body } = document;
  useLayoutEffect(() => {
    if (held === body || document.activeElement !== body) return;
    const isGone = held?.isConnected === false && held.matches('.chip, .off');
    const next = isGone ? document.querySelector('.chips button') : held;
    if (next instanceof HTMLElement) next.focus();
  });
  return <>{isNarrow ? [...on, ...off] : chips}</>;
}

function Past({
  label,
  change,
}: {
  readonly label: string;
  readonly isOn: boolean;
  readonly change: () => void;
}): VNode {
  return (
    <button type="button" class="chip past" onClick={change}>
      {label}
      <Icon name="cross" />
      <span class="vh">(back to now)</span>
    </button>
  );
}

/** A chip that is on or off. */
function Switch({
  label,
  isOn,
  isText = false,
  change,
}: {
  readonly label: string;
  readonly isOn: boolean;
  /** The label is what was typed. */
  readonly isText?: boolean;
  readonly change: () => void;
}): VNode {
  return (
    <button
      type="button"
      class={isOn ? 'chip on' : 'chip'}
      aria-pressed={isOn}
      title={label}
      onClick={change}
    >
      <bdi class={isText ? 'mono' : undefined}>{label}</bdi>
      {isOn && <Icon name="cross" />}
    </button>
  );
}
