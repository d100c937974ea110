import type { VNode } from 'preact';
import { counted } from '../../../wording/amounts.ts';
import type { FolderPages, FolderRow } from '../../reading/health/folder-rows.ts';
import { Ago, Maybe, Messages, PageLinks, Row, SumText, TablePanel } from './parts.tsx';

const HEAD = [
  ['Folder', false],
  ['Messages', true],
  ['Unread', true],
  ['Deleted there', true],
  ['Sum, in places', false],
  ['Compared', false],
  ['Flags compared', false],
  ['Certificate', false],
] as const;

/** Each folder with its sum and the age of its proof. */
export function FoldersTab({
  groups,
  sort,
  from,
  step,
  all,
  now,
}: FolderPages & { readonly now: number }): VNode {
  const other = sort === 'age' ? '/health/folders' : '/health/folders?sort=age';
  return (
    <>
      <p class="note">
        {counted(all, 'folder')},{' '}
        {sort === 'age' ? 'those compared longest ago first' : 'in the order of their names'}.{' '}
        <a class="link" href={other}>
          {sort === 'age' ? 'By name' : 'By age of the comparison'}
        </a>
        . A message at two places of a folder counts once as a message and twice in the sum.
      </p>
      {groups.map(({ address, imported, folders }, at) => (
        <TablePanel
          key={at}
          title={<bdi>{address}</bdi>}
          note={imported ? 'imported from files' : undefined}
          head={HEAD}
        >
          {folders.map((folder) => (
            <Folder key={folder.folder} folder={folder} imported={imported} now={now} />
          ))}
        </TablePanel>
      ))}
      <PageLinks
        path="/health/folders"
        parameters={{ sort: sort === 'age' ? 'age' : undefined }}
        from={from}
        step={step}
        all={all}
      />
    </>
  );
}

function Folder({
  folder,
  imported,
  now,
}: {
  readonly folder: FolderRow;
  readonly imported: boolean;
  readonly now: number;
}): VNode {
  const { stored, assumed, quarantined, held, forgotten, provenAt, complete } = folder;
  const originTotal = stored + assumed + quarantined + forgotten;
  const isOdd = quarantined + held + forgotten > 0 || complete === false;
  return (
    <Row head={HEAD}>
      <th scope="row">
        <bdi>{folder.folder}</bdi>
        {folder.unwatched && <span class="tag">unwatched</span>}
      </th>
      <td class="r">
        <Messages {...folder.kept} />
      </td>
      <td class="r">
        <Messages {...folder.unread} />
      </td>
      <td class="r">
        <Messages {...folder.deleted} />
      </td>
      <td class={isOdd ? 'odd' : undefined}>
        {imported ? (
          ''
        ) : (
          <SumText {...{ originTotal, stored, assumed, quarantined, held, forgotten }} />
        )}
      </td>
      <td>
        {imported ? (
          ''
        ) : provenAt === null ? (
          <span class="odd">never</span>
        ) : (
          <>
            <Ago at={provenAt} now={now} />
            {complete === false && <span class="odd">, not complete</span>}
          </>
        )}
      </td>
      <td>{imported ? '' : <Maybe at={folder.flagsAt} never="never" />}</td>
      <td>{imported ? '' : <Maybe at={folder.certifiedAt} never="none yet" />}</td>
    </Row>
  );
}
