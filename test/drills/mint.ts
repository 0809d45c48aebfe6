// `npm run drill -- mint <attempts>`: random attempts to get more out of a limited key than it has: all refused.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { tryToMint } from '../scopes/mint.ts'

const attempts = Number(process.argv[2] ?? 1_000)
await drill(async (scope) => {
  await tryToMint(await startControlPlane(scope), attempts)
  console.log(`${attempts} attempts to get more than a key has: all refused`)
  return true
})
