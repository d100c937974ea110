import type { ArchiveParts, RequestContext } from './request-context.ts';

/** Bytes of a form with two short fields. */
const MOST_BYTES = 4_096;

/** Returns the fields of a form; null for a body that is none of ours: of another type, or too long. */
export async function formBody(
  request: Request,
  most = MOST_BYTES,
): Promise<URLSearchParams | null> {
  const type = request.headers.get('content-type') ?? '';
  if (!/^application\/x-www-form-urlencoded(?:;|$)/i.test(type)) return null;
  if (Number(request.headers.get('content-length') ?? '0') > most) return null;
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of request.body ?? []) {
    size += piece.byteLength;
    if (size > most) return null;
    pieces.push(piece);
  }
  return new URLSearchParams(Buffer.concat(pieces).toString('utf8'));
}

/** Returns the fields of a form that a page of this session has sent; null for any other. */
export async function ownForm(
  { forms }: Pick<ArchiveParts, 'forms'>,
  context: RequestContext,
): Promise<URLSearchParams | null> {
  const fields = await formBody(context.req.raw);
  return forms.isOf(context.get('session').key, fields?.get('token') ?? '') ? fields : null;
}
