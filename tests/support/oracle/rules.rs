//! Rules are stored and block nothing: the cases about groups and limits run on databases alone.

use async_trait::async_trait;
use jobwright::Result;
use jobwright::store::{
    Admission, AdmissionLag, AdmitRequest, Admitted, ClockRepair, Expired, Expiring, FullQueue, Maintenance,
    QueueCapacity, Rule, RuleEdit, Rules, Scope, SkewedRows, UnreadableRow,
};

use super::Oracle;

#[async_trait]
impl Admission for Oracle {
    async fn admit(&self, _: &AdmitRequest<'_>) -> Result<Admitted> {
        Ok(Admitted::default())
    }

    async fn age_jobs(&self, _: usize) -> Result<u64> {
        Ok(0)
    }

    async fn prune_rates(&self, _: usize) -> Result<u64> {
        Ok(0)
    }

    async fn permit_faults(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn overdue_unblocks(&self) -> Result<AdmissionLag> {
        Ok(AdmissionLag::default())
    }
}

#[async_trait]
impl Rules for Oracle {
    async fn change_rule(&self, scope: Scope, name: &str, edit: RuleEdit, _: Option<&str>) -> Result<Rule> {
        let mut state = self.lock();
        let old = state.rules.iter().find(|known| (known.scope, known.name.as_str()) == (scope, name));
        let mut rule = old.cloned().unwrap_or_else(|| Rule::new(scope, name));
        edit(&mut rule);
        rule.check()?;
        state.rules.retain(|known| (known.scope, &known.name) != (rule.scope, &rule.name));
        if !rule.is_empty() {
            state.rules.push(rule.clone());
        }
        state.rules.sort_by(|a, b| (a.scope.as_str(), &a.name).cmp(&(b.scope.as_str(), &b.name)));
        Ok(rule)
    }

    async fn rules(&self) -> Result<Vec<Rule>> {
        Ok(self.lock().rules.clone())
    }

    async fn rule_faults(&self) -> Result<Vec<UnreadableRow>> {
        Ok(Vec::new())
    }
}

/// The oracle's clock is never wrong.
#[async_trait]
impl ClockRepair for Oracle {
    async fn repair_clock(&self) -> Result<Vec<SkewedRows>> {
        Ok(Vec::new())
    }

    async fn clock_skew(&self) -> Result<Vec<SkewedRows>> {
        Ok(Vec::new())
    }
}

/// Nothing expires: the cases about expiry run on databases alone.
#[async_trait]
impl Maintenance for Oracle {}

#[async_trait]
impl Expiring for Oracle {
    async fn expire_jobs(&self, _: usize) -> Result<Expired> {
        Ok(Expired::default())
    }
}

/// No queue is ever full.
#[async_trait]
impl QueueCapacity for Oracle {
    async fn full(&self, _: &[&str]) -> Result<Vec<FullQueue>> {
        Ok(Vec::new())
    }

    fn is_single_writer(&self) -> bool {
        false
    }
}
