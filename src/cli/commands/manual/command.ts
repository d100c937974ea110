import type { Command } from 'commander';
import { EXIT } from '../../../errors/exit-codes.ts';
import { COMMANDS } from '../../commands.ts';
import type { Body } from '../../context.ts';
import { manualPage } from './page.ts';

/** What the build makes the man page of. */
export function define(command: Command, chosen: (body: Body) => void): void {
  command.action(() =>
    chosen(async ({ output }) => {
      await output.bytes(Buffer.from(await manualPage(COMMANDS)));
      return EXIT.done;
    }),
  );
}
