// `npm run drill -- terraform <resources>`: Terraform creates, plans and destroys this many resources. How long does each
// take, and how long does the provider take to start?
import { loadavg } from 'node:os'
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { quantile } from '../harness/quantiles.ts'
import { startProvider } from '../terraform/provider.ts'
import { isTerraformMissing, newWorkspace } from '../terraform/workspace.ts'

const [resources = 1_000] = process.argv.slice(2).map(Number)
const starts = 10

await drill(async (scope) => {
  if (isTerraformMissing) throw new Error(isTerraformMissing)
  const plane = await startControlPlane(scope)
  const { token } = await plane.newAccount()
  const origin = plane.processes[0]?.origin ?? ''
  const timed = async (what: string, work: () => Promise<unknown>) => {
    const began = performance.now()
    await work()
    console.log(`${what}: ${((performance.now() - began) / 1000).toFixed(1)} s`)
  }

  const took: number[] = []
  for (let start = 0; start < starts; start++) {
    const began = performance.now()
    const { child } = await startProvider(scope, { GATEHOUSE_URL: origin, GATEHOUSE_API_KEY: token })
    took.push(performance.now() - began)
    child.kill()
  }
  console.log(
    `start until the handshake: ${quantile(took, 0.5).toFixed(0)} ms (${Math.min(...took).toFixed(0)} to ${Math.max(...took).toFixed(0)})`,
  )

  const workspace = await newWorkspace(scope, { origin, token })
  await workspace.write(
    'main.tf',
    `resource "gatehouse_static_backend" "it" {
      count   = ${resources}
      address = "app-\${count.index}.internal:8080"
    }`,
  )
  await workspace.ok('init')
  await timed('plan of nothing yet', () => workspace.ok('plan'))
  await timed(`apply: create ${resources}`, () => workspace.ok('apply', '-auto-approve'))
  let isChange = true
  await timed('plan without changes', async () => {
    isChange = await workspace.isChange()
  })
  await timed(`destroy ${resources}`, () => workspace.ok('destroy', '-auto-approve'))
  console.log(
    `load average ${loadavg()
      .map((load) => load.toFixed(1))
      .join(' ')}`,
  )
  return !isChange
})
