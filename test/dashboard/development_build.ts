import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { freePort } from '../../dev/ports.ts'
import { endWithUs } from '../../dev/run_on_exit.ts'
import type { Scope } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'

const root = new URL('../..', import.meta.url).pathname

/** The dashboard as those who work on it see it, with the page of components; resolves to its address. */
export async function startDevelopmentBuild(scope: Scope, origin: string, token: string): Promise<string> {
  const port = await freePort()
  const child = spawn(
    process.execPath,
    [`${root}node_modules/vite/bin/vite.js`, '--host', '127.0.0.1', '--port', `${port}`, '--strictPort'],
    {
      cwd: `${root}dashboard`,
      env: { ...process.env, GATEHOUSE_URL: origin, GATEHOUSE_API_KEY: token },
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  )
  endWithUs(child, 'kill -9 "$0"')
  scope.after(async () => {
    if (child.exitCode !== null || !child.kill()) return
    await once(child, 'exit')
  })
  const url = `http://127.0.0.1:${port}/dashboard`
  await poll(
    () =>
      fetch(`${url}/`).then(
        ({ status }) => status,
        () => 0,
      ),
    (status) => status === 200,
  )
  return url
}
