import { afterAll, beforeAll, describe, test } from 'vitest';
import type { S3Server } from '../objects/servers/s3-server.ts';
import { startSwift, withoutSwift } from '../objects/servers/swift.ts';
import { expectLife } from './copy-life.ts';

const skipped = withoutSwift();
let server: S3Server;

beforeAll(async () => {
  if (!skipped) server = await startSwift();
});

afterAll(() => server?.stop());

describe.skipIf(skipped)('the program with Swift, which cannot refuse an existing object', () => {
  test('a copy lives, and comes back', () => expectLife(server, 'life'), 300_000);
});
