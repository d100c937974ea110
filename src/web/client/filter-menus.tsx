import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { count } from '../../wording/amounts.ts';
import { two } from '../../wording/dates.ts';
import type { Completion } from '../pages/completions.ts';
import { folderIcon, Icon, type IconName } from '../pages/icons.tsx';
import type { Term } from '../reading/query-terms.ts';
import { filterText } from '../reading/query-text.ts';
import type { SideEntry, SideTree } from '../reading/side-tree.ts';
import { Choice } from './chip-menu.tsx';
import { completionsOf } from './completion-list.tsx';
import { Latest } from './latest.ts';

/** Folders of which a field narrows the list. */
const MANY = 12;

/** Every folder, by its mailbox. */
export function FolderMenu({
  tree,
  chosen,
  choose,
}: {
  readonly tree: SideTree;
  readonly chosen: Term | undefined;
  /** Takes the query of the side's link. */
  readonly choose: (entry: string) => void;
}): VNode {
  const [wanted, setWanted] = useState('');
  const fits = ({ name, path }: SideEntry): boolean =>
    `${path ?? ''} ${name}`.toLowerCase().includes(wanted.toLowerCase());
  const all = tree.mailboxes.flatMap(({ folders }) => folders);
  const row = ({ name, query, count: found }: SideEntry, icon: IconName): VNode | null =>
    query === null ? null : (
      <Choice
        key={query}
        isOn={chosen !== undefined && query.includes(chosen.text)}
        choose={() => choose(query)}
        count={found === null ? '' : count(found)}
      >
        <Icon name={icon} />
        <bdi>{name}</bdi>
      </Choice>
    );
  return (
    <>
      {all.length > MANY && <Narrow label="Folder" value={wanted} write={setWanted} />}
      {wanted === '' && <Choice choose={() => choose('')}>Anywhere</Choice>}
      {tree.mailboxes.map((mailbox) => (
        <div key={mailbox.name}>
          {(fits(mailbox) || tree.mailboxes.length === 1) &&
            row(mailbox, mailbox.imported ? 'box' : 'mail')}
          {[...mailbox.folders, ...mailbox.earlier]
            .filter(fits)
            .map((entry) => row(entry, folderIcon(entry.path ?? entry.name, entry.specialUse)))}
        </div>
      ))}
    </>
  );
}

/** People by name or address, those with most messages first. */
export function PeopleMenu({ choose }: { readonly choose: (text: string | null) => void }): VNode {
  const [wanted, setWanted] = useState('');
  const [rows, setRows] = useState<readonly Completion[]>([]);
  const asking = useRef(new Latest()).current;
  useEffect(() => {
    // As it would be typed: in quotes, where it has blanks.
    const text = wanted === '' ? 'from:' : filterText('from', wanted);
    asking.run(async (signal) => {
      const found = await completionsOf({ text, caret: text.length }, signal);
      if (!signal.aborted) setRows(found);
    });
  }, [wanted, asking]);
  useEffect(() => () => asking.stop(), [asking]);
  const typed = wanted.trim();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (typed !== '') choose(filterText('from', typed));
      }}
    >
      <Narrow label="Name or address" value={wanted} write={setWanted} />
      {typed === '' ? (
        <>
          <Choice choose={() => choose(null)}>Anyone</Choice>
          <Choice choose={() => choose('from:me')}>Me</Choice>
        </>
      ) : (
        <Choice choose={() => choose(filterText('from', typed))}>
          Any name with <bdi class="mono">{typed}</bdi>
        </Choice>
      )}
      {rows.map((row) => (
        <Choice
          key={row.insert}
          choose={() => choose(`from:${row.insert}`)}
          count={row.count === null ? '' : count(row.count)}
        >
          <bdi>{row.label}</bdi>
          <bdi class="faint">{row.detail}</bdi>
        </Choice>
      ))}
    </form>
  );
}

/** Years that are offered by themselves. */
const YEARS = 4;

/** Days, months and years to begin with, and a field for any day. */
export function SinceMenu({ choose }: { readonly choose: (text: string | null) => void }): VNode {
  const now = new Date();
  const year = now.getFullYear();
  const month = (ago: number): string => {
    const first = new Date(year, now.getMonth() - ago, 1);
    return `${first.getFullYear()}-${two(first.getMonth() + 1)}`;
  };
  const since = (label: string, value: string): VNode => (
    <Choice key={value} choose={() => choose(`after:${value}`)}>
      {label}
    </Choice>
  );
  return (
    <>
      <Choice choose={() => choose(null)}>Any time</Choice>
      {since('Today', 'today')}
      {since('This month', month(0))}
      {since('Last month', month(1))}
      {Array.from({ length: YEARS }, (_, ago) => since(String(year - ago), String(year - ago)))}
      <label class="day">
        Since
        <input
          type="date"
          onChange={({ currentTarget: { value } }) => {
            if (/^\d{4}-\d\d-\d\d$/.test(value)) choose(`after:${value}`);
          }}
        />
      </label>
    </>
  );
}

function Narrow({
  label,
  value,
  write,
}: {
  readonly label: string;
  readonly value: string;
  readonly write: (text: string) => void;
}): VNode {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <input
      ref={field}
      class="narrow"
      value={value}
      onInput={(event) => write(event.currentTarget.value)}
      aria-label={label}
      placeholder={label}
      autocomplete="off"
      autocapitalize="none"
      spellcheck={false}
    />
  );
}
