// `npm run drill -- headers`: 100,000 generated header maps, judged by the code and by an oracle that shares nothing with
// it.
import { drill } from '../harness/drill.ts'
import { checkHeaders } from '../headers/check.ts'

const count = Number(process.argv[2] ?? 100_000)

await drill(async () => {
  const began = Date.now()
  const { accepted, refused } = checkHeaders(count)
  const seconds = ((Date.now() - began) / 1_000).toFixed(1)
  console.log(`${count} header maps: ${accepted} accepted, ${refused} refused, no disagreement, ${seconds} s`)
  return accepted > count / 5 && refused > count / 5
})
