import { escapeHtml, relative } from './markdown.ts'

/** The most common starting points, with the minutes that they take. */
const starts: readonly [page: string, title: string, text: string, minutes: string][] = [
  [
    'start/quickstart.html',
    'Try it',
    'One command starts everything. See a request refused, and find the rule.',
    '5 min',
  ],
  ['start/concepts.html', 'Understand it', 'Account, policy, restriction, edge, node, generation: six ideas.', '5 min'],
  ['start/tutorial.html', 'Restrict safely', 'Warn first, read the evidence, then enforce. Undo a change.', '30 min'],
  [
    'guides/install-debian.html',
    'Install it',
    'Control plane, database, NATS and an edge node on one machine.',
    '15 min',
  ],
]

const groups: readonly [title: string, links: readonly [page: string, title: string][]][] = [
  [
    'Control who gets in',
    [
      ['guides/ip-policies.html', 'IP policies and rules'],
      ['guides/introduce-a-restriction.html', 'Warn, then enforce'],
      ['guides/preview-a-change.html', 'Preview a change'],
      ['guides/import-and-prune-rules.html', 'Import and prune rules'],
      ['guides/why-was-it-refused.html', 'Find out why a request was refused'],
      ['guides/recipes.html', 'Recipes'],
    ],
  ],
  [
    'Serve traffic',
    [
      ['guides/edges-and-routes.html', 'HTTPS and TCP edges, routes'],
      ['guides/backends.html', 'Backends: health, drain, fail over'],
      ['guides/domains.html', 'Domains'],
      ['guides/certificates.html', 'Certificates'],
      ['guides/response-headers.html', 'Headers'],
      ['guides/redirects.html', 'Redirects'],
    ],
  ],
  [
    'Automate',
    [
      ['start/first-calls.html', 'First calls to the API'],
      ['reference/cli.html', 'Command line'],
      ['guides/state-files-in-ci.html', 'State files in Git and CI'],
      ['guides/terraform.html', 'Terraform'],
      ['guides/webhooks.html', 'Webhooks'],
      ['guides/alerts.html', 'Alerts'],
      ['guides/api-keys.html', 'API keys'],
      ['guides/invite-people.html', 'Invite people'],
    ],
  ],
  [
    'Run it',
    [
      ['guides/put-tls-in-front.html', 'TLS in front of the API'],
      ['guides/add-an-edge-node.html', 'Add an edge node'],
      ['operate/cells.html', 'Cells: nodes for some accounts'],
      ['operate/regions.html', 'Regions'],
      ['operate/monitoring.html', 'Monitoring and alerts'],
      ['operate/backup-and-restore.html', 'Backup and restore'],
      ['operate/upgrade.html', 'Upgrade'],
    ],
  ],
  [
    'Look it up',
    [
      ['reference/', 'API reference'],
      ['reference/errors.html', 'Error codes'],
      ['reference/settings.html', 'Settings'],
      ['explain/health.html', 'States of health'],
      ['reference/ports.html', 'Ports'],
      ['reference/limits-and-retention.html', 'Limits and retention'],
    ],
  ],
  [
    'Decide',
    [
      ['start/compare.html', 'Compared with other tools'],
      ['explain/how-it-works.html', 'How it works'],
      ['explain/order.html', 'What happens to a request'],
      ['explain/security.html', 'Security model'],
      ['operate/capacity.html', 'Capacity'],
      ['start/faq.html', 'Questions and answers'],
    ],
  ],
]

const troubles: readonly [page: string, title: string, text: string][] = [
  [
    'guides/why-was-it-refused.html',
    'Someone is refused who should get in',
    'Look up the request, and get the rule that decided.',
  ],
  [
    'operate/troubleshooting.html#an-account-has-locked-itself-out',
    'I am locked out',
    'How an operator lets an account in again.',
  ],
  [
    'operate/troubleshooting-edge-nodes.html#a-change-does-not-arrive',
    'A change does not arrive',
    'Follow it from the API to the node.',
  ],
  [
    'operate/troubleshooting-edge-nodes.html#an-upstream-fails',
    'A backend fails',
    'Read the reason that each node reports.',
  ],
]

export const landingAddress = 'index.html'

/** The site's first page: what Gatehouse is, where to begin, and what to do when something is wrong. */
export function landingPage(): string {
  const to = (page: string) => relative(landingAddress, page)
  const link = (page: string, title: string) => `<li><a href="${to(page)}">${escapeHtml(title)}</a></li>`
  return `<div class="landing"><h1 id="gatehouse-documentation">Gatehouse documentation</h1>
<p class="lead">Decide who reaches your services, by IP address, from one API that you run yourself. Edge nodes with HAProxy
enforce it, and keep enforcing it when everything else is down.</p>
<section class="starts" aria-label="Start here">${starts
    .map(
      ([page, title, text, minutes]) =>
        `<a href="${to(page)}"><b>${title}</b><span>${text}</span><small>${minutes}</small></a>`,
    )
    .join('')}</section>
<section class="groups">${groups
    .map(
      ([title, links]) =>
        `<div><h2>${title}</h2><ul>${links.map(([page, own]) => link(page, own)).join('')}</ul></div>`,
    )
    .join('')}</section>
<section><h2>Something is wrong</h2><ul class="troubles">${troubles
    .map(([page, title, text]) => `<li><a href="${to(page)}">${title}</a><span>${text}</span></li>`)
    .join('')}</ul></section></div>`
}
