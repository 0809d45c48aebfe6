import type { Route } from '../http/route.ts'
import { accessTestRoutes } from './access_tests/routes.ts'
import { alertRoutes } from './alerts/routes.ts'
import { apiKeyRoutes } from './api_keys/routes.ts'
import { approvalPolicyRoutes } from './approval_policy/routes.ts'
import { auditEventRoutes } from './audit_events/routes.ts'
import { backendRoutes } from './backends/routes.ts'
import { callerRoutes } from './caller/routes.ts'
import { cellRoutes } from './cells/routes.ts'
import { approvalRoutes } from './change_sets/approve_routes.ts'
import { revertRoutes } from './change_sets/revert_routes.ts'
import { changeSetRoutes } from './change_sets/routes.ts'
import { commandSignInRoutes } from './command_sign_in/routes.ts'
import { dashboardSessionRoutes } from './dashboard_session/routes.ts'
import { edgeNodeRoutes } from './edge_nodes/routes.ts'
import { httpsEdgeRoutes } from './edges/https.ts'
import { tcpEdgeRoutes } from './edges/tcp.ts'
import { identityRoutes } from './identities/routes.ts'
import { ipActivityRoutes } from './ip_activity/routes.ts'
import { ipCheckRoutes } from './ip_checks/routes.ts'
import { ipImpactRoutes } from './ip_impact/routes.ts'
import { ipPolicyRoutes } from './ip_policies/routes.ts'
import { ipPolicyRuleRoutes } from './ip_policy_rules/routes.ts'
import { ruleSetRoutes } from './ip_policy_rules/rule_set_routes.ts'
import { ipRefusalRoutes } from './ip_refusals/routes.ts'
import { ipRestrictionRoutes } from './ip_restrictions/routes.ts'
import { newlyRefusedRoutes } from './newly_refused_addresses/routes.ts'
import { botUserRoutes } from './principals/bot_users.ts'
import { userRoutes } from './principals/users.ts'
import { requestRoutes } from './requests/routes.ts'
import { reservedDomainRoutes } from './reserved_domains/routes.ts'
import { rolloutRoutes } from './rollouts/routes.ts'
import { ruleEvidenceRoutes } from './rule_evidence/routes.ts'
import { tlsCertificateRoutes } from './tls_certificates/routes.ts'
import { trafficStatisticsRoutes } from './traffic_statistics/routes.ts'
import { userInvitationRoutes } from './user_invitations/routes.ts'
import { webhookDestinationRoutes } from './webhook_destinations/routes.ts'

/** All operations of the API, and the only list that the server, openapi.json and the coverage tests read. */
export const routes: readonly Route[] = [
  ...apiKeyRoutes,
  ...userRoutes,
  ...userInvitationRoutes,
  ...botUserRoutes,
  ...identityRoutes,
  ...commandSignInRoutes,
  ...ipPolicyRoutes,
  ...ipPolicyRuleRoutes,
  ...ruleSetRoutes,
  ...ruleEvidenceRoutes,
  ...ipImpactRoutes,
  ...ipRestrictionRoutes,
  ...ipCheckRoutes,
  ...accessTestRoutes,
  ...ipRefusalRoutes,
  ...newlyRefusedRoutes,
  ...ipActivityRoutes,
  ...requestRoutes,
  ...trafficStatisticsRoutes,
  ...backendRoutes,
  ...tcpEdgeRoutes,
  ...httpsEdgeRoutes,
  ...reservedDomainRoutes,
  ...tlsCertificateRoutes,
  ...edgeNodeRoutes,
  ...cellRoutes,
  ...rolloutRoutes,
  ...callerRoutes,
  ...dashboardSessionRoutes,
  ...changeSetRoutes,
  ...approvalRoutes,
  ...approvalPolicyRoutes,
  ...auditEventRoutes,
  ...revertRoutes,
  ...webhookDestinationRoutes,
  ...alertRoutes,
]
