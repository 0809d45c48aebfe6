// An edge node as always, on a disk that its parent can make fail.
import { edge } from '../../src/commands/edge.ts'
import { readEdgeConfig } from '../../src/config/config.ts'
import { faultyFiles, type Operation } from '../harness/faulty_files.ts'

/** `skip` operations of these kinds, or of any, on files with this in their names succeed, and the next `count` fail. */
export type DiskFault = { skip: number; count: number; kinds?: readonly Operation['kind'][]; path?: string }

const disk = faultyFiles((name) => process.send?.(name))
function fail({ skip, count, kinds, path = '' }: DiskFault): void {
  let [left, failing] = [skip, count]
  const concerns = ({ kind, file }: Operation) => (!kinds || kinds.includes(kind)) && file.includes(path)
  disk.failWhen((operation) => concerns(operation) && left-- <= 0 && failing-- > 0)
}
process.on('message', fail)
// The channel to the parent must not keep a node alive that has ended.
process.channel?.unref()
fail(JSON.parse(process.env.GATEHOUSE_TEST_DISK_FAULT ?? '{"skip":0,"count":0}'))
process.exit(await edge(readEdgeConfig(), { files: disk.files, retryMs: 20 }))
