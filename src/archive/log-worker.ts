/** Entry of the thread that writes to the log, for log-thread.ts. */

import { openThreadPort } from '../core/in-thread.ts';
import { realFiles } from './file-system.ts';
import type { FromLogThread, ToLogThread } from './log-thread.ts';
import { serveLogThread } from './log-thread.ts';

const receive = serveLogThread(realFiles, (message) => port.send(message));
const port = openThreadPort<ToLogThread, FromLogThread>((message) => receive(message));
