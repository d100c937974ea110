import { savedSearches } from '../../engine/saved-searches.ts';
import { forgetFor, type Saving, saveFor } from '../reading/saving.ts';
import { formBody } from './form-body.ts';
import type { ArchiveParts, RequestContext, WebApp } from './request-context.ts';

/** Bytes of a query in a form: each of its 4,000 characters may need nine. */
const MOST_BYTES = 40_000;

/** Saved searches, which the command line shares: listed, saved and forgotten. */
export function savedRoutes(app: WebApp, { archive, now }: ArchiveParts): void {
  const { dataDir } = archive;
  app.get('/api/saved', (context) => context.json({ data: savedSearches(dataDir) }));
  const change = (path: string, act: (field: (name: string) => string) => Saving): void => {
    app.post(path, async (context: RequestContext) => {
      const fields = await formBody(context.req.raw, MOST_BYTES);
      if (fields === null) return context.json({ error: { code: 'bad-form' } }, 400);
      return context.json({ data: act((name) => fields.get(name) ?? '') });
    });
  };
  change('/api/saved', (field) =>
    saveFor(
      dataDir,
      { name: field('name'), query: field('query'), replace: field('replace') === '1' },
      now(),
    ),
  );
  change('/api/saved/forget', (field) => forgetFor(dataDir, field('name')));
}
