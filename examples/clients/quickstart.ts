// Creates an IP policy, adds a rule twice, lists all policies, and deletes the policy.
import { createClient, GatehouseError } from 'gatehouse-client'

const client = createClient({ url: process.env.GATEHOUSE_URL ?? '', apiKey: process.env.GATEHOUSE_API_KEY ?? '' })

const { data: policy } = await client.POST('/ip_policies', { body: { description: 'staging' } })
const rule = { ip_policy_id: policy.id, action: 'allow', cidr: '203.0.113.0/24' } as const
await client.POST('/ip_policy_rules', { body: rule })
try {
  await client.POST('/ip_policy_rules', { body: rule })
} catch (error) {
  if (!(error instanceof GatehouseError)) throw error
  console.log(error.status, error.code) // 409 ERR_CIDR_TAKEN
}
for await (const { id, description } of client.list('/ip_policies')) console.log(id, description)
await client.DELETE('/ip_policies/{id}', { params: { path: { id: policy.id } } })
