import { asOfWord } from '../reading/query-text.ts';

/** Returns the address one step back: from a message to its list, from a query to all mail, from the past to now. */
export function backStep(address: URL): string | null {
  const query = address.searchParams.get('q') ?? '';
  if (address.pathname.startsWith('/m/')) return mailAddress(address, query);
  if (address.pathname !== '/mail') return '/mail';
  if (address.searchParams.has('m')) return mailAddress(address, query);
  const moment = asOfWord(query);
  if (query.trim() === '') return null;
  return mailAddress(address, query.trim() === moment ? '' : moment);
}

function mailAddress(address: URL, query: string): string {
  const kept = new URLSearchParams();
  if (query !== '') kept.set('q', query);
  const sort = address.searchParams.get('sort');
  if (sort !== null) kept.set('sort', sort);
  const isSameList = query === (address.searchParams.get('q') ?? '');
  for (const name of ['after', 'at']) {
    const value = address.searchParams.get(name);
    if (value !== null && isSameList) kept.set(name, value);
  }
  const search = kept.toString();
  return search === '' ? '/mail' : `/mail?${search}`;
}
