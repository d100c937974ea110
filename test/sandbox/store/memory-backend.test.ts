import { MemoryBackend } from '../../../src/sandbox/backends.ts';
import { storeContract } from './store-contract.ts';

storeContract(() => new MemoryBackend());
