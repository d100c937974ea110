import type { ServedReader } from '../reading/served-archive.ts';
import { Turns } from '../reading/turns.ts';
import type { Parameter } from './mail-pages.ts';
import { type RequestContext, type WebApp, type WebParts, withReader } from './request-context.ts';

/** Searches run one after the other: they hold the thread, and each may find that its browser has left. */
const searches = new Turns(1);

/** Answers an address with data of the archive. */
export type AddData = (
  path: string,
  make: (reader: ServedReader, parameter: Parameter) => object | null,
) => void;

/** Returns a function that adds addresses to an app whose answers are made in turns. */
export function dataRoute(app: WebApp, parts: Pick<WebParts, 'archive'>): AddData {
  return (path, make) => {
    app.get(path, (context) => {
      const parameter: Parameter = (name) => context.req.query(name);
      const answer = () =>
        withReader(parts, context, (reader) => context.json({ data: make(reader, parameter) }));
      return unlessLeft(context, (signal) => searches.take(answer, signal));
    });
  };
}

/** Where a browser has left, nobody hears the answer. */
async function unlessLeft(
  context: RequestContext,
  act: (signal: AbortSignal) => Promise<Response>,
): Promise<Response> {
  const { signal } = context.req.raw;
  try {
    return await act(signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    return context.body(null, 503);
  }
}
