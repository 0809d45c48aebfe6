import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useNavigate, useParams } from 'react-router'
import { answerOf, api } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Field } from '../ui/field.tsx'
import { Loaded } from '../ui/loading.tsx'
import { Name } from '../ui/name.tsx'
import { ProblemNote } from '../ui/problem.tsx'
import { Ago } from '../ui/time.tsx'
import { PolicyDetail } from './policies/detail.tsx'
import { Uses } from './policies/uses.tsx'

export function Policies() {
  const { id } = useParams()
  return id ? <PolicyDetail key={id} id={id} /> : <PolicyList />
}

function PolicyList() {
  const policies = useQuery(queries.policies())
  const [isCreating, setCreating] = useState(false)
  return (
    <>
      <p className="lead">
        A policy is a named list of allowed and denied ranges. It takes effect through the restrictions, edges and
        routes that use it. A deny overrides any allow, and an address that no rule allows is refused.
      </p>
      <section className="card" aria-label="IP policies">
        <header>
          <h2>Policies</h2>
          <Button kind="primary" icon="plus" onPress={() => setCreating(true)}>
            Create policy
          </Button>
        </header>
        <Loaded query={policies} lines={6}>
          {(rows) =>
            rows.length === 0 ? (
              <p className="empty">No policies yet. Create one and add the addresses of your office.</p>
            ) : (
              <table className="stack">
                <thead>
                  <tr>
                    <th scope="col">Policy</th>
                    <th scope="col">Used by</th>
                    <th scope="col">Created</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((policy) => (
                    <tr key={policy.id}>
                      <th scope="row">
                        <Link to={`/policies/${policy.id}`}>
                          <Name id={policy.id} text={policy.description} />
                        </Link>
                      </th>
                      <td data-label="Used by">
                        <Uses policyId={policy.id} />
                      </td>
                      <td data-label="Created">
                        <Ago at={policy.created_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )
          }
        </Loaded>
      </section>
      {isCreating && <CreatePolicy onClose={() => setCreating(false)} />}
    </>
  )
}

function CreatePolicy({ onClose }: { onClose: () => void }) {
  const [description, setDescription] = useState('')
  const navigate = useNavigate()
  const client = useQueryClient()
  const create = useMutation({
    mutationFn: () => answerOf(api.POST('/ip_policies', { body: { description } })),
    onSuccess: async ({ id }) => {
      await client.invalidateQueries({ queryKey: ['policies'] })
      navigate(`/policies/${id}`)
    },
  })
  return (
    <Dialog title="Create an IP policy" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate()
        }}
      >
        <Field label="Description" autoFocus value={description} onChange={setDescription} placeholder="offices" />
        {create.isError && <ProblemNote error={create.error} />}
        <div className="actions">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isPending={create.isPending}>
            Create IP policy
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
