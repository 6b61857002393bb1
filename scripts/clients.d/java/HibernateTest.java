import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.persistence.CascadeType;
import jakarta.persistence.Column;
import jakarta.persistence.ElementCollection;
import jakarta.persistence.Embeddable;
import jakarta.persistence.Embedded;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.FetchType;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Index;
import jakarta.persistence.Lob;
import jakarta.persistence.LockModeType;
import jakarta.persistence.ManyToMany;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.OptimisticLockException;
import jakarta.persistence.OrderBy;
import jakarta.persistence.SequenceGenerator;
import jakarta.persistence.Table;
import jakarta.persistence.UniqueConstraint;
import jakarta.persistence.Version;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.CreationTimestamp;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.cfg.Configuration;
import org.hibernate.exception.ConstraintViolationException;
import org.hibernate.type.SqlTypes;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Hibernate: schemas made, updated and validated from entities; relations, locks, queries. */
class HibernateTest {
  enum State {
    OPEN,
    PAID,
    SENT
  }

  @Embeddable
  static class Address {
    String street;

    @Column(length = 10)
    String code;
  }

  @Entity(name = "Customer")
  @Table(name = "customers", indexes = @Index(name = "by_city", columnList = "code, name"))
  static class Customer {
    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    Long id;

    @Column(length = 40, nullable = false, unique = true)
    String name;

    @Embedded Address address;
    @CreationTimestamp Instant since;

    @OneToMany(mappedBy = "customer", cascade = CascadeType.ALL, orphanRemoval = true)
    @OrderBy("placed")
    List<Order> orders = new ArrayList<>();

    @ElementCollection Set<String> names = new HashSet<>();

    Customer() {}

    Customer(String name) {
      this.name = name;
    }

    Order order(String total, String... tags) {
      Order order = new Order();
      order.customer = this;
      order.total = new BigDecimal(total);
      order.placed = LocalDate.of(2024, 2, 1 + orders.size());
      order.tags = tags;
      orders.add(order);
      return order;
    }
  }

  @Entity(name = "Order")
  @Table(
      name = "orders",
      uniqueConstraints =
          @UniqueConstraint(
              name = "one_a_day",
              columnNames = {"customer_id", "placed"}))
  static class Order {
    @Id
    @GeneratedValue(strategy = GenerationType.SEQUENCE, generator = "order_ids")
    @SequenceGenerator(name = "order_ids", allocationSize = 20)
    Long id;

    @Version int version;

    @ManyToOne(optional = false, fetch = FetchType.LAZY)
    Customer customer;

    @Column(precision = 10, scale = 2)
    BigDecimal total;

    @Column(nullable = false)
    LocalDate placed;

    @Enumerated(EnumType.STRING)
    State state = State.OPEN;

    @JdbcTypeCode(SqlTypes.JSON)
    Map<String, String> extra = new HashMap<>();

    String[] tags;
    UUID code = UUID.randomUUID();
    byte[] raw = {0, -1};

    @Column(length = 6000)
    String notes;

    @ManyToMany Set<Item> items = new HashSet<>();
  }

  @Entity(name = "Item")
  @Table(name = "items")
  static class Item {
    @Id @GeneratedValue UUID id;
    String name;

    Item() {}

    Item(String name) {
      this.name = name;
    }
  }

  @Entity(name = "Longer")
  @Table(name = "items")
  static class LongerItem {
    @Id @GeneratedValue UUID id;
    String name;

    @Column(columnDefinition = "int default 7 not null")
    int count;

    @ManyToOne Customer maker;
  }

  @Entity(name = "Document")
  @Table(name = "documents")
  static class Document {
    @Id @GeneratedValue Long id;
    @Lob String text;
    @Lob byte[] bytes;
  }

  @BeforeEach
  void make() throws SQLException {
    Server.make("store");
  }

  @AfterEach
  void drop() throws SQLException {
    Server.drop("store");
  }

  static SessionFactory factory(String action, Class<?>... entities) {
    Configuration configuration =
        new Configuration()
            .setProperty("hibernate.connection.url", Server.URL)
            .setProperty("hibernate.connection.username", Server.USER)
            .setProperty("hibernate.connection.currentSchema", "store")
            .setProperty("hibernate.connection.reWriteBatchedInserts", "true")
            .setProperty("hibernate.connection.isolation", "READ_COMMITTED")
            .setProperty("hibernate.jdbc.batch_size", "30")
            .setProperty("hibernate.order_inserts", "true")
            .setProperty("hibernate.hbm2ddl.halt_on_error", "true")
            .setProperty("hibernate.hbm2ddl.auto", action);
    for (Class<?> entity : entities) {
      configuration.addAnnotatedClass(entity);
    }
    return configuration.buildSessionFactory();
  }

  static SessionFactory factory(String action) {
    return factory(action, Customer.class, Order.class, Item.class);
  }

  static void fill(Session session) {
    Customer anna = new Customer("Anna");
    anna.names.addAll(Set.of("A", "An"));
    anna.address = new Address();
    anna.address.code = "0123";
    anna.order("10.50", "new", "gift").extra.put("paper", "red");
    anna.order("2").state = State.PAID;
    Customer ben = new Customer("Ben");
    ben.order("100").notes = "long ".repeat(1000);
    session.persist(anna);
    session.persist(ben);
  }

  @Test
  void schemasAreMadeUpdatedAndValidated() throws SQLException {
    assertThrows(RuntimeException.class, () -> factory("validate"));
    factory("create").close();
    factory("validate").close();
    factory("update").close();
    try (Connection conn = Server.connect("currentSchema=store")) {
      Server.run(conn, "INSERT INTO items (id, name) VALUES (gen_random_uuid(), 'cup')");
      assertThrows(
          RuntimeException.class,
          () -> factory("validate", Customer.class, Order.class, Item.class, LongerItem.class));
      factory("update", Customer.class, Order.class, Item.class, LongerItem.class).close();
      factory("validate", Customer.class, Order.class, Item.class, LongerItem.class).close();
      assertEquals(
          Server.list("cup,7,null"), Server.query(conn, "SELECT name, count, maker_id FROM items"));
      factory("create-drop").close();
      assertEquals(
          Server.list("0"),
          Server.query(conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 'store'"));
    }
  }

  @Test
  void relationsAreStoredAndQueried() {
    try (SessionFactory factory = factory("create")) {
      factory.inTransaction(HibernateTest::fill);
      factory.inTransaction(
          session -> {
            Customer anna =
                session
                    .createQuery("FROM Customer WHERE name = 'Anna'", Customer.class)
                    .getSingleResult();
            assertEquals(
                List.of(new BigDecimal("10.50"), new BigDecimal("2.00")),
                anna.orders.stream().map(o -> o.total).toList());
            assertEquals(
                "0123 red gift 2",
                String.join(
                    " ",
                    anna.address.code,
                    anna.orders.get(0).extra.get("paper"),
                    anna.orders.get(0).tags[1],
                    String.valueOf(anna.names.size())));
            assertNotNull(anna.since);
            anna.orders.get(0).items.addAll(List.of(new Item("cup"), new Item("pot")));
            anna.orders.get(0).items.forEach(session::persist);
            anna.orders.remove(1);
          });
      factory.inTransaction(
          session -> {
            List<Object[]> totals =
                session
                    .createQuery(
                        "SELECT c.name, count(o), sum(o.total), max(size(o.items)) FROM Customer c"
                            + " LEFT JOIN c.orders o GROUP BY c.name ORDER BY c.name",
                        Object[].class)
                    .getResultList();
            assertEquals(
                List.of("Anna 1 10.50 2", "Ben 1 100.00 0"),
                totals.stream()
                    .map(row -> row[0] + " " + row[1] + " " + row[2] + " " + row[3])
                    .toList());
            List<Customer> fetched =
                session
                    .createQuery(
                        "SELECT DISTINCT c FROM Customer c JOIN FETCH c.orders o LEFT JOIN FETCH"
                            + " o.items WHERE o.state IN (:states) ORDER BY c.id",
                        Customer.class)
                    .setParameter("states", List.of(State.values()))
                    .getResultList();
            assertEquals(2, fetched.size());
            assertEquals(5000, fetched.get(1).orders.get(0).notes.length());
            assertEquals(
                List.of("Ben"),
                session
                    .createQuery("SELECT name FROM Customer ORDER BY name", String.class)
                    .setFirstResult(1)
                    .setMaxResults(5)
                    .getResultList());
            assertEquals(
                List.of("Ben"),
                session
                    .createQuery(
                        "SELECT c.name FROM Customer c WHERE EXISTS (SELECT 1 FROM Order o WHERE"
                            + " o.customer = c AND extract(year FROM o.placed) = 2024 AND o.total >"
                            + " 50)",
                        String.class)
                    .getResultList());
            assertEquals(
                1,
                session
                    .createMutationQuery("UPDATE Order SET state = SENT WHERE total > 50")
                    .executeUpdate());
            assertEquals(
                1,
                session
                    .createQuery("FROM Order WHERE state = SENT", Order.class)
                    .getResultList()
                    .size());
            session.remove(
                session
                    .createQuery("FROM Customer WHERE name = 'Anna'", Customer.class)
                    .getSingleResult());
          });
      long left =
          factory.fromTransaction(
              session ->
                  session.createQuery("SELECT count(*) FROM Order", Long.class).getSingleResult());
      assertEquals(1, left);
    }
  }

  @Test
  void conflictsAreNoticed() {
    try (SessionFactory factory = factory("create")) {
      factory.inTransaction(HibernateTest::fill);
      ConstraintViolationException failure =
          assertThrows(
              ConstraintViolationException.class,
              () -> factory.inTransaction(session -> session.persist(new Customer("Ben"))));
      assertTrue(
          failure.getConstraintName().contains("name")
              || failure.getConstraintName().startsWith("uk"));
      assertThrows(
          OptimisticLockException.class,
          () ->
              factory.inTransaction(
                  session -> {
                    Order order =
                        session
                            .createQuery("FROM Order WHERE total = 100", Order.class)
                            .getSingleResult();
                    factory.inTransaction(
                        other ->
                            other
                                    .createQuery("FROM Order WHERE total = 100", Order.class)
                                    .getSingleResult()
                                    .state =
                                State.PAID);
                    order.state = State.SENT;
                  }));
      factory.inTransaction(
          session -> {
            Order order =
                session
                    .createQuery("FROM Order WHERE total = 100", Order.class)
                    .setLockMode(LockModeType.PESSIMISTIC_WRITE)
                    .getSingleResult();
            List<Order> free =
                factory.fromTransaction(
                    other ->
                        other
                            .createQuery("FROM Order ORDER BY id", Order.class)
                            .setHibernateLockMode(org.hibernate.LockMode.UPGRADE_SKIPLOCKED)
                            .getResultList());
            assertEquals(2, free.size());
            assertTrue(free.stream().noneMatch(other -> other.id.equals(order.id)));
            assertThrows(
                RuntimeException.class,
                () ->
                    factory.inTransaction(
                        other ->
                            other
                                .createQuery("FROM Order", Order.class)
                                .setHibernateLockMode(org.hibernate.LockMode.UPGRADE_NOWAIT)
                                .getResultList()));
          });
    }
  }

  @Test
  void manyAreStoredAtOnce() {
    try (SessionFactory factory = factory("create")) {
      factory.inTransaction(
          session -> {
            Customer anna = new Customer("Anna");
            for (int number = 0; number < 25; number++) {
              anna.order(String.valueOf(number));
            }
            session.persist(anna);
          });
      assertEquals(
          "25 300.00",
          factory.fromTransaction(
              session -> {
                Object[] row =
                    session
                        .createQuery(
                            "SELECT count(DISTINCT id), sum(total) FROM Order", Object[].class)
                        .getSingleResult();
                return row[0] + " " + row[1];
              }));
      // From the server in parts.
      long seen =
          factory.fromTransaction(
              session ->
                  session
                      .createQuery("FROM Order ORDER BY id", Order.class)
                      .setFetchSize(7)
                      .getResultStream()
                      .count());
      assertEquals(25, seen);
    }
  }

  @Test
  @KnownGap("large objects are missing")
  void largeObjectsAreStored() {
    try (SessionFactory factory = factory("create", Document.class)) {
      factory.inTransaction(
          session -> {
            Document document = new Document();
            document.text = "long ".repeat(100_000);
            document.bytes = new byte[] {0, -1};
            session.persist(document);
          });
      factory.inTransaction(
          session -> {
            Document document =
                session.createQuery("FROM Document", Document.class).getSingleResult();
            assertEquals(500_000, document.text.length());
            assertEquals(-1, document.bytes[1]);
          });
    }
  }
}
