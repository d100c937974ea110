import type { ServedReader } from '../reading/served-archive.ts';
import { inTurn } from './in-turn.ts';
import type { Parameter } from './request-context.ts';
import { type ArchiveParts, type WebApp, withReader } from './request-context.ts';

/** Answers an address with data of the archive. */
export type AddData = (
  path: string,
  make: (reader: ServedReader, parameter: Parameter) => object | null,
) => void;

/** Returns a function that adds addresses to an app whose answers are made in turns. */
export function dataRoute(app: WebApp, parts: Pick<ArchiveParts, 'archive'>): AddData {
  return (path, make) => {
    app.get(path, (context) => {
      const parameter: Parameter = (name) => context.req.query(name);
      return inTurn(context, () =>
        withReader(parts, context, (reader) => context.json({ data: make(reader, parameter) })),
      );
    });
  };
}
