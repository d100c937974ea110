import type { CountRequest } from '../../catalog/search/search.ts';
import type { SearchNode } from '../../search/ast.ts';
import { parseQuery } from '../../search/parse.ts';
import { termsOf } from '../reading/query-terms.ts';
import { filterText } from '../reading/query-text.ts';
import { understandQuery } from '../reading/understood-query.ts';
import { type Asking, ToolRefusal } from './tool.ts';

/** Special uses (RFC 6154) of folders that answers leave out. */
const LEFT_OUT: ReadonlySet<string | null> = new Set(['\\Junk', '\\Trash']);

/**
 * Understands a query as the command line does. Junk and Trash are left out, unless that is not wanted or the query
 * names a folder itself.
 *
 * @throws ToolRefusal for a query that cannot be understood
 */
export function questionOf(
  query: string,
  { reader, now, accounts }: Asking,
  { everywhere }: { readonly everywhere: boolean },
): CountRequest {
  const { request, problem } = understandQuery(query, reader, now, accounts);
  if (request === null) {
    const { message, hint } = problem;
    throw new ToolRefusal(hint === null ? message : `${message} ${hint}`);
  }
  if (everywhere || termsOf(query).terms.some(({ operator }) => operator === 'in')) return request;
  const paths = new Set(
    reader.catalog.folders
      .all({ gone: true })
      .filter(({ specialUse }) => LEFT_OUT.has(specialUse))
      .map(({ folder }) => folder),
  );
  const { span } = request.node;
  const nodes = [...paths].map(
    (path): SearchNode => ({
      kind: 'not',
      node: parseQuery(filterText('in', path), { now }).node,
      span,
    }),
  );
  return nodes.length === 0
    ? request
    : { ...request, node: { kind: 'and', nodes: [request.node, ...nodes], span } };
}
