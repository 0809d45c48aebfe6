// `npm run dev -- --demo`: within a minute there is something to see on every page, made by people and real requests.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { noteToken } from '../harness/client.ts'
import { poll } from '../harness/poll.ts'
import { openBrowser, openPage, signIn } from './browser.ts'

type Answers = {
  groups?: { sums: { requests: number; refused: number; errors: { unreachable: number } } }[]
  newly_refused_addresses?: object[]
}
const browser = await openBrowser({ after })

test('the demonstration has traffic, failures, and a history in which people have names', async (t) => {
  const npm = spawn('npm', ['run', '--silent', 'dev', '--', '--json', '--demo'], {
    cwd: new URL('../..', import.meta.url).pathname,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(async () => {
    npm.kill('SIGTERM')
    if (npm.exitCode === null && npm.signalCode === null) await once(npm, 'exit')
  })
  const [line] = await once(createInterface({ input: npm.stdout }), 'line')
  const { base_url: origin, token } = JSON.parse(line)
  noteToken(token)
  const get = async (path: string) => {
    const headers = { authorization: `Bearer ${token}`, 'service-version': '2' }
    return (await (await fetch(origin + path, { headers })).json()) as Answers
  }
  await poll(
    async () => (await get('/traffic_statistics')).groups?.[0]?.sums,
    (sums) => sums !== undefined && sums.requests > 100 && sums.refused > 0 && sums.errors.unreachable > 0,
    { withinSeconds: 90 },
  )
  await poll(
    async () => (await get('/newly_refused_addresses')).newly_refused_addresses ?? [],
    (shutOut) => shutOut.length > 0,
    { withinSeconds: 90 },
  )

  const page = await openPage(browser)
  await signIn(page, origin, token)
  const attention = page.getByRole('list', { name: 'Needs attention' })
  for (const what of ['was let in before and is refused now', 'Billing is down', 'Grafana is down'])
    await attention.getByText(what).waitFor()
  await page.getByText('Marcus replaced the rules of').first().waitFor()
  await page.getByText('Helen changed weighted backend').first().waitFor()
  await page.goto(`${origin}/dashboard/traffic`)
  await page.getByRole('table', { name: 'Requests' }).getByText('Refused').first().waitFor()
  assert.deepEqual(page.faults, [])
})
