// A separate load process, for machines without wrk: node bench/load.ts <url> <token> <connections> <seconds>
import { Agent, get } from 'node:http'

const [url = '', token = '', connections = '16', seconds = '2'] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true, maxSockets: Number(connections) })
const headers = { Authorization: `Bearer ${token}`, 'Service-Version': '2' }
const began = performance.now()
const end = began + Number(seconds) * 1_000
let answered = 0

const once = () =>
  new Promise<void>((resolve, reject) => {
    const request = get(url, { agent, headers }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`))
      response.resume().on('end', resolve)
    })
    request.on('error', reject)
  })
const worker = async () => {
  while (performance.now() < end) {
    await once()
    answered++
  }
}
await Promise.all(Array.from({ length: Number(connections) }, worker))
agent.destroy()
// In the words of wrk, so that one reader does for both.
console.log(`${answered} requests in ${seconds}s`)
console.log(`Requests/sec: ${(answered / (performance.now() - began)) * 1_000}`)
