import { MemoryBackend } from '../../../src/sandbox/store/memory-backend.ts';
import { storeContract } from './store-contract.ts';

storeContract(() => new MemoryBackend());
