/** What is used of `pg`, whose module is CommonJS; nothing else imports it. */
import pg from 'pg';

export type { Client, DatabaseError, Pool, PoolClient, PoolConfig } from 'pg';

/** A warning or a notice of the server, as the protocol has it. */
export interface Notice {
  /** The function of the server that it comes from. */
  readonly routine?: string | undefined;
}

const INT8: number = pg.types.builtins.INT8;
/** An array of them, for which `pg` has no name. */
const INT8_ARRAY = 1016;

/** Numbers of commits, epochs and bytes stay far below 2^53; one that does not is an error, never another number. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) => {
    if (format === 'binary') return pg.types.getTypeParser(oid, format);
    const type: number = oid;
    if (type === INT8) return safeInteger;
    if (type === INT8_ARRAY) return safeIntegers;
    return pg.types.getTypeParser(oid, format);
  },
};

function safeIntegers(text: string): number[] {
  const inner = text.slice(1, -1);
  return inner === '' ? [] : inner.split(',').map(safeInteger);
}

function safeInteger(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number)) throw new Error(`${text} is no safe integer`);
  return number;
}

/** Returns a pool of connections that reads 64-bit integers as numbers. */
export function pool(config: Omit<pg.PoolConfig, 'types'>): pg.Pool {
  return new pg.Pool({ ...config, types });
}

/** Returns a connection that belongs to nobody else; it is not connected yet. */
export function client(config: Omit<pg.ClientConfig, 'types'>): pg.Client {
  return new pg.Client({ ...config, types });
}
