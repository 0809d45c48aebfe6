import { execFile } from 'node:child_process'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

type Wanted = {
  folder: string
  /** Unique among the loads that run at the same time. */
  name: string
  httpsPort: number
  urls: readonly string[]
  /** How often each of the clients asks for each of the URLs. */
  times: number
  clients: number
}

/** HTTP/2 requests as fast as they are answered. Resolves to how many had which status; -1 for those without an answer. */
export async function h2load({ folder, name, httpsPort, urls, times, clients }: Wanted): Promise<Map<string, number>> {
  const [log, list] = [join(folder, `${name}-h2load.log`), join(folder, `${name}.urls`)]
  await writeFile(list, `${urls.join('\n')}\n`)
  await promisify(execFile)(
    'h2load',
    [
      ...[`--requests=${urls.length * times * clients}`, `--clients=${clients}`, '--max-concurrent-streams=4'],
      ...[`--log-file=${log}`, `--input-file=${list}`, `--connect-to=127.0.0.1:${httpsPort}`],
    ],
    { maxBuffer: 64 << 20 },
  )
  const statuses = new Map<string, number>()
  for (const [, status = ''] of (await readFile(log, 'utf8')).matchAll(/^\d+\t(-?\d+)\t\d+$/gm))
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
  await Promise.all([rm(log), rm(list)])
  return statuses
}
