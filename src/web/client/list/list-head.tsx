import type { VNode } from 'preact';
import { count } from '../../../wording/amounts.ts';
import { Icon } from '../../pages/icons.tsx';
import { Found } from '../../pages/mail-list.tsx';
import type { MailList } from '../../reading/mail-list.ts';
import { pageAddress } from '../../reading/query-text.ts';
import type { Density } from './density.ts';
import type { ListQuery, NewMail } from './row-source.ts';

interface ListHeadProps {
  readonly of: ListQuery;
  readonly list: Pick<MailList, 'all' | 'ended'>;
  readonly fresh: NewMail | null;
  readonly density: Density;
  readonly onNew: () => void;
  readonly onDensity: () => void;
}

/** What the query finds, what came since, the order, and how high rows are. */
export function ListHead({
  of: { query, sort },
  list,
  fresh,
  density,
  onNew,
  onDensity,
}: ListHeadProps): VNode {
  const other = sort === 'newest' ? 'oldest' : undefined;
  return (
    <div class="listhead">
      <Found all={list.all} ended={list.ended} query={query} />
      {fresh !== null && (
        <button type="button" class="btn fresh" onClick={onNew}>
          {fresh.isMore && 'more than '}
          {count(fresh.count)} new
        </button>
      )}
      <span class="spacer" />
      <a class="btn quiet narrow-only" href={pageAddress('/export', { q: query })}>
        Export
      </a>
      <a class="btn quiet" href={pageAddress('/mail', { q: query, sort: other })}>
        {sort === 'newest' ? 'Newest first' : 'Oldest first'}
      </a>
      <button
        type="button"
        class="btn quiet density"
        title={`Rows: ${density}`}
        aria-label={`Rows: ${density}. Change`}
        onClick={onDensity}
      >
        <Icon name="lines" />
      </button>
    </div>
  );
}
